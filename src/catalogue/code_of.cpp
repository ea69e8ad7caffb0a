#include "src/catalogue/code_of.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <span>
#include <utility>

#include "src/catalogue/hash.h"

namespace autotune {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_blank(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

// The characters of names and numbers. The bytes of UTF-8 belong to them, and so does `$`, which compilers accept.
constexpr std::array<bool, 256> kWordCharacters = [] {
    std::array<bool, 256> all{};
    for (const char c : std::string_view("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_$"))
        all[static_cast<unsigned char>(c)] = true;
    for (std::size_t byte = 0x80; byte < all.size(); ++byte) all[byte] = true;
    return all;
}();

bool is_word(char c) {
    return kWordCharacters[static_cast<unsigned char>(c)];
}

// Whether the text has a carriage return without a line feed: some compilers end a line there, others do not.
bool has_lone_return(std::string_view text) {
    for (std::size_t at = text.find('\r'); at != std::string_view::npos; at = text.find('\r', at + 1))
        if (!text.substr(at + 1).starts_with('\n')) return true;
    return false;
}

// `text` with lines that end in a backslash joined, as a compiler does first. `is_clear` becomes false if white space follows
// such a backslash.
std::string joined_lines(std::string_view text, bool& is_clear) {
    std::string joined;
    joined.reserve(text.size());
    while (!text.empty()) {
        const std::size_t backslash = text.find('\\');
        joined += text.substr(0, backslash);
        if (backslash == std::string_view::npos) break;
        text.remove_prefix(backslash);
        const std::size_t next = text.find_first_not_of(" \t\r\v\f", 1);
        if (next != std::string_view::npos && text[next] == '\n') {
            const std::string_view between = text.substr(1, next - 1);
            if (!between.empty() && between != "\r") is_clear = false;
            text.remove_prefix(next + 1);
        } else {
            joined += '\\';
            text.remove_prefix(1);
        }
    }
    return joined;
}

// Reads a text's tokens from left to right.
class Tokens {
  public:
    explicit Tokens(std::string_view text) : text_(text) {}

    // Skips white space, comments and line ends; returns whether a line ended.
    bool skip_blanks() {
        bool is_new_line = false;
        for (skip_blanks_in_line(); at_line_end(); skip_blanks_in_line()) {
            is_new_line = true;
            ++at_;
        }
        return is_new_line;
    }
    // Skips white space and comments up to the end of the line.
    void skip_blanks_in_line() {
        while (at_ < text_.size()) {
            if (is_blank(text_[at_])) {
                ++at_;
            } else if (text_[at_] != '/') {
                return;
            } else if (starts_with("//")) {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else if (starts_with("/*")) {
                const std::size_t end = text_.find("*/", at_ + 2);
                at_ = end == std::string_view::npos ? text_.size() : end + 2;
            } else {
                return;
            }
        }
    }
    bool at_end() const { return at_ == text_.size(); }
    bool at_line_end() const { return !at_end() && text_[at_] == '\n'; }
    bool starts_with(std::string_view word) const { return text_.substr(at_).starts_with(word); }

    // REQUIRES: !at_end(), and no white space or comment comes next.
    std::string_view next() {
        const std::size_t begin = at_;
        const char c = text_[at_];
        if (is_word(c) || (c == '.' && is_digit(character(1)))) {
            pass_word(is_digit(c) || c == '.');
            const std::string_view word = text_.substr(begin, at_ - begin);
            if (is_quote_of_prefix(word)) pass_literal();
            if (std::find(kLineWords.begin(), kLineWords.end(), word) != kLineWords.end()) counts_places_ = true;
        } else if (c == '"' || c == '\'') {
            pass_literal();
        } else {
            if (is_other_spelling()) has_other_spellings_ = true;
            at_ += length_of_operator();
        }
        return text_.substr(begin, at_ - begin);
    }
    // The name of a header with its quotes or angle brackets; empty if none comes next.
    std::string_view next_header() {
        const char open = at_end() ? '\0' : text_[at_];
        if (open != '"' && open != '<') return {};
        const std::size_t end = text_.find_first_of(open == '<' ? ">\n" : "\"\n", at_ + 1);
        if (end == std::string_view::npos || text_[end] == '\n') return {};
        const std::string_view name = text_.substr(at_, end + 1 - at_);
        at_ = end + 1;
        return name;
    }
    bool has_raw_string() const { return has_raw_string_; }
    // Whether an operator has an alternative spelling (`%:` for `#`), or a backslash occurs outside of literals.
    bool has_other_spellings() const { return has_other_spellings_; }
    // Whether the code may depend on its line or file name.
    bool counts_places() const { return counts_places_; }

  private:
    static constexpr std::array<std::string_view, 7> kLineWords = {
        "__LINE__", "__FILE__", "__builtin_LINE", "__builtin_FILE", "__builtin_COLUMN", "source_location", "assert"};

    bool is_other_spelling() const {
        const char c = text_[at_], next = character(1), after = character(2);
        if (c == '\\') return true;
        if (c == '<') return next == '%' || (next == ':' && (after != ':' || character(3) == ':' || character(3) == '>'));
        if (c == '?') return next == '?' && (after == '=' || after == '/');
        return ((c == '%' || c == ':') && next == '>') || (c == '%' && next == ':');
    }
    // Skips a name, or a number in the preprocessor's sense: 1'000, 0x1p-3, 1.5f.
    void pass_word(bool is_number) {
        while (at_ < text_.size()) {
            const char c = text_[at_], next = character(1);
            if (c == '$' && next == '{') {
                const std::size_t end = text_.find_first_of("}\n", at_);
                at_ = end == std::string_view::npos || text_[end] == '\n' ? at_ + 2 : end + 1;
            } else if (is_word(c)) {
                ++at_;
                const bool is_exponent = is_number && (c == 'e' || c == 'E' || c == 'p' || c == 'P');
                if (is_exponent && (next == '+' || next == '-')) ++at_;
            } else if (is_number && c == '.') {
                ++at_;
            } else if (is_number && c == '\'' && is_word(next)) {
                at_ += 2;
            } else {
                return;
            }
        }
    }
    // Whether the word is the prefix of a literal.
    bool is_quote_of_prefix(std::string_view word) {
        constexpr std::array<std::string_view, 4> kPrefixes = {"L", "u", "U", "u8"};
        const bool is_string = character(0) == '"';
        if (!is_string && character(0) != '\'') return false;
        if (is_string && word.ends_with('R')) {
            const std::string_view rest = word.substr(0, word.size() - 1);
            if (rest.empty() || std::find(kPrefixes.begin(), kPrefixes.end(), rest) != kPrefixes.end()) pass_raw_string();
        }
        return std::find(kPrefixes.begin(), kPrefixes.end(), word) != kPrefixes.end();
    }
    // Skips a raw string, R"name( ... )name". Its contents are not code, so an #include in it does not count.
    void pass_raw_string() {
        has_raw_string_ = true;
        const std::size_t open = text_.find('(', at_);
        if (open == std::string_view::npos) return;
        std::string end(text_.substr(at_ + 1, open - at_ - 1));
        end = ")" + end + "\"";
        const std::size_t close = text_.find(end, open);
        at_ = close == std::string_view::npos ? text_.size() : close + end.size();
    }
    // Skips a literal from its quote to its suffix. An unterminated literal ends with its line.
    void pass_literal() {
        const char quote = text_[at_++];
        while (at_ < text_.size() && text_[at_] != '\n') {
            const char c = text_[at_++];
            if (c == quote) {
                pass_word(false);
                return;
            }
            if (c == '\\' && at_ < text_.size() && text_[at_] != '\n') ++at_;
        }
    }
    char character(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    std::size_t length_of_operator() const {
        const char first = text_[at_], second = character(1), third = character(2);
        switch (first) {
            case '<':
            case '>':
                if (second == first) return third == '=' ? 3 : 2;
                return second == '=' ? 2 : 1;
            case '-':
                if (second == '>') return third == '*' ? 3 : 2;
                return second == '-' || second == '=' ? 2 : 1;
            case '+':
            case '&':
            case '|':
                return second == first || second == '=' ? 2 : 1;
            case '%':
                return second == '=' || second == ':' ? 2 : 1;
            case '*':
            case '/':
            case '^':
            case '=':
            case '!':
                return second == '=' ? 2 : 1;
            case ':':
            case '#':
                return second == first ? 2 : 1;
            case '.':
                if (second == '.' && third == '.') return 3;
                return second == '*' ? 2 : 1;
            default:
                return 1;
        }
    }

    std::string_view text_;
    std::size_t at_ = 0;
    bool has_raw_string_ = false, has_other_spellings_ = false, counts_places_ = false;
};

// Writes tokens with a space between two of them.
class TokenWriter {
  public:
    explicit TokenWriter(std::size_t room) { text_.reserve(room); }
    void token(std::string_view token) {
        if (!text_.empty() && text_.back() != '\n') text_ += ' ';
        text_ += token;
    }
    void attach(std::string_view more) { text_ += more; }
    void end_line() {
        if (!text_.empty() && text_.back() != '\n') text_ += '\n';
    }
    std::string take() { return std::move(text_); }

  private:
    std::string text_;
};

struct Text {
    std::string code;
    std::vector<std::string> headers;  // in quotes
    bool shows_spelling = false;
};

// Reads the argument of a directive if it is not a usual token: the name of a header, or that of a macro, whose parameter list
// begins with a parenthesis that follows without a space.
void read_argument(std::string_view directive, Tokens& tokens, Text& read, TokenWriter& code) {
    tokens.skip_blanks_in_line();
    if (tokens.at_end() || tokens.at_line_end()) return;
    if (directive == "define") {
        code.token(tokens.next());
        if (tokens.starts_with("(")) code.attach(tokens.next());
    } else if (directive == "include") {
        const std::string_view header = tokens.next_header();
        if (header.empty()) return;
        const std::string_view name = header.substr(1, header.size() - 2);
        if (header.front() == '"') read.headers.emplace_back(name);
        code.token(header.substr(0, 1));
        code.attach(header.front() == '"' ? base_name(name) : name);  // <a/x> and <b/x> are two headers
        code.attach(header.substr(header.size() - 1));
    }
}

std::vector<std::string_view> tokens_of(std::string_view line) {
    std::vector<std::string_view> all;
    Tokens tokens(line);
    for (tokens.skip_blanks(); !tokens.at_end(); tokens.skip_blanks()) all.push_back(tokens.next());
    return all;
}

using TokenSpan = std::span<const std::string_view>;

bool has_token(TokenSpan tokens, std::string_view token) {
    return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
}

// The macros of a text that turn their arguments, or parts of them, into strings (`#argument`).
class SpellingMacros {
  public:
    // `code` is the text as code_of() writes it.
    explicit SpellingMacros(std::string_view code) {
        while (!code.empty()) {
            lines_.push_back(tokens_of(code.substr(0, code.find('\n'))));
            code.remove_prefix(std::min(code.find('\n'), code.size() - 1) + 1);
        }
        for (bool grows = true; grows;) {  // A macro that passes its arguments on to such a macro is one, too.
            grows = false;
            for (const auto& line : lines_)
                if (is_directive(line, "define") && line.size() > 3 && spells(TokenSpan(line).subspan(3)))
                    grows = names_.insert(line[2]).second || grows;
        }
    }
    // Whether white space in this code may become visible: through an argument of several tokens, or through other texts that use
    // the macro. An argument of one token contains no white space.
    bool may_show() const {
        std::set<std::string_view> in_use;
        for (const auto& line : lines_) {
            if (line.empty()) continue;
            if (is_directive(line, "undef") && line.size() > 2) in_use.erase(line[2]);
            if (is_directive(line, "include") && !in_use.empty()) return true;
            const bool is_definition = is_directive(line, "define") && line.size() > 2;
            if (is_definition && names_.contains(line[2])) {
                in_use.insert(line[2]);
                if (has_token(line, "...")) return true;
            }
            if (line[0] != "#" || is_definition)
                if (gives_several_tokens(TokenSpan(line).subspan(is_definition ? 3 : 0))) return true;
        }
        return !in_use.empty();
    }

  private:
    static bool is_directive(TokenSpan line, std::string_view word) {
        return line.size() > 1 && line[0] == "#" && line[1] == word;
    }
    bool spells(TokenSpan text) const {
        return has_token(text, "#") ||
               std::any_of(text.begin(), text.end(), [&](std::string_view token) { return names_.contains(token); });
    }
    bool gives_several_tokens(TokenSpan tokens) const {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            if (!names_.contains(tokens[i])) continue;
            if (i + 1 == tokens.size() || tokens[i + 1] != "(") return true;  // passed by its name
            std::size_t depth = 0, of_argument = 0;
            for (std::size_t at = i + 1; at < tokens.size(); ++at) {
                const std::string_view token = tokens[at];
                if (token == ")" && --depth == 0) break;
                if (depth == 1 && token == ",") {
                    of_argument = 0;
                } else if (depth > 0 && ++of_argument > 1) {
                    return true;
                }
                if (token == "(") ++depth;
            }
        }
        return false;
    }

    std::vector<std::vector<std::string_view>> lines_;
    std::set<std::string_view> names_;
};

Text read_text(std::string_view text) {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    bool is_clear = !has_lone_return(text);
    const std::string joined = joined_lines(text, is_clear);
    Tokens tokens(joined);
    TokenWriter code(joined.size());
    Text read;
    bool is_first_of_line = true, is_in_directive = false, makes_strings = false;
    while (true) {
        const bool is_new_line = tokens.skip_blanks();
        if (is_in_directive && (is_new_line || tokens.at_end())) code.end_line();
        if (tokens.at_end()) break;
        if (is_new_line) is_first_of_line = true;
        if (is_new_line) is_in_directive = false;
        const std::string_view token = tokens.next();
        if ((token == "#" || token == "%:") && is_first_of_line) {
            is_in_directive = true;
            code.end_line();
            code.token(token);
            tokens.skip_blanks_in_line();
            if (!tokens.at_end() && !tokens.at_line_end()) {
                const std::string_view directive = tokens.next();
                code.token(directive);
                read_argument(directive, tokens, read, code);
            }
        } else {
            makes_strings = makes_strings || (token == "#" && is_in_directive);
            code.token(token);
        }
        is_first_of_line = false;
    }
    std::string written = code.take();
    read.shows_spelling = makes_strings && SpellingMacros(written).may_show();
    is_clear =
        is_clear && !read.shows_spelling && !tokens.has_raw_string() && !tokens.has_other_spellings() && !tokens.counts_places();
    read.code = is_clear ? std::move(written) : std::string(text);
    return read;
}

}  // namespace

std::string code_of(std::string_view text) {
    return read_text(text).code;
}

std::vector<std::string> included_headers(std::string_view text) {
    return read_text(text).headers;
}

bool shows_spelling(std::string_view text) {
    return read_text(text).shows_spelling;
}

std::string_view base_name(std::string_view path) {
    return path.substr(path.rfind('/') + 1);
}

struct DeviceText::State {
    std::string text;
    std::mutex mutex{};
    std::atomic<bool> is_read{false};
    std::string code_hash{};
    std::vector<std::string> headers{};
    bool shows_spelling = false;
};

namespace {

std::string hash_of(std::string_view text) {
    Hash hash;
    hash.field(text);
    return to_hex(hash.digest());
}

}  // namespace

DeviceText::DeviceText(std::string text) : state_(std::make_shared<State>()) {
    state_->text = std::move(text);
}

const std::string& DeviceText::text() const {
    return state_->text;
}

const DeviceText::State& DeviceText::read() const {
    // Not std::call_once, because an exception that passes through it, for lack of memory, ends the process.
    if (state_->is_read.load(std::memory_order_acquire)) return *state_;
    const std::lock_guard lock(state_->mutex);
    if (state_->is_read.load(std::memory_order_relaxed)) return *state_;
    Text read = read_text(state_->text);
    state_->code_hash = hash_of(read.code);
    state_->shows_spelling = read.shows_spelling;
    state_->headers = std::move(read.headers);
    state_->is_read.store(true, std::memory_order_release);
    return *state_;
}

const std::string& DeviceText::code_hash() const {
    return read().code_hash;
}

const std::vector<std::string>& DeviceText::headers() const {
    return read().headers;
}

bool DeviceText::shows_spelling() const {
    return read().shows_spelling;
}

std::string DeviceText::hash_among(bool some_shows_spelling) const {
    return some_shows_spelling ? hash_of(state_->text) : code_hash();
}

}  // namespace autotune
