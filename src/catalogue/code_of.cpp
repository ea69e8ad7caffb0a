#include "src/catalogue/code_of.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
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

// Characters of names and numbers. Bytes of UTF-8 are; compilers take `$` as well.
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

// `text` with lines joined that end in a backslash, as a compiler joins them before anything else. False in `is_clear` where
// white space follows the backslash.
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

    // Passes white space, comments and line ends; true if a line ended.
    bool skip_blanks() {
        bool is_new_line = false;
        for (skip_blanks_in_line(); at_line_end(); skip_blanks_in_line()) {
            is_new_line = true;
            ++at_;
        }
        return is_new_line;
    }
    // The same up to the end of the line.
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

    // REQUIRES: !at_end(), no white space or comment stands here.
    std::string_view next() {
        const std::size_t begin = at_;
        const char c = text_[at_];
        if (is_word(c) || (c == '.' && is_digit(character(1)))) {
            pass_word(is_digit(c) || c == '.');
            if (is_quote_of_prefix(text_.substr(begin, at_ - begin))) pass_literal();
        } else if (c == '"' || c == '\'') {
            pass_literal();
        } else {
            at_ += length_of_operator();
        }
        return text_.substr(begin, at_ - begin);
    }
    // The name of a header with its quotes or angle brackets; empty if there is none here.
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

  private:
    // A name, or a number as the preprocessor sees one: 1'000, 0x1p-3, 1.5f.
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
    // Whether the word that was read is the first part of a literal.
    bool is_quote_of_prefix(std::string_view word) {
        constexpr std::array<std::string_view, 4> kPrefixes = {"L", "u", "U", "u8"};
        const bool is_string = character(0) == '"';
        if (!is_string && character(0) != '\'') return false;
        if (is_string && word.ends_with('R')) {
            const std::string_view rest = word.substr(0, word.size() - 1);
            if (rest.empty() || std::find(kPrefixes.begin(), kPrefixes.end(), rest) != kPrefixes.end()) has_raw_string_ = true;
        }
        return std::find(kPrefixes.begin(), kPrefixes.end(), word) != kPrefixes.end();
    }
    // From its quote to the suffix; one without an end stops with its line.
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
            case '*':
            case '/':
            case '%':
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
    bool has_raw_string_ = false;
};

// Writes tokens down, a space between two of them.
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
};

// What a directive has behind its word, where that is no usual token: the name of a header, or that of a macro, whose parameters
// begin with a parenthesis that no space stands before.
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
        code.attach(base_name(name));
        code.attach(header.substr(header.size() - 1));
    }
}

Text read_text(std::string_view text) {
    bool is_clear = true;
    const std::string joined = joined_lines(text, is_clear);
    Tokens tokens(joined);
    TokenWriter code(joined.size());
    Text read;
    bool is_first_of_line = true, is_in_directive = false;
    while (true) {
        if (tokens.skip_blanks()) {
            if (is_in_directive) code.end_line();
            is_first_of_line = true;
            is_in_directive = false;
        }
        if (tokens.at_end()) break;
        const std::string_view token = tokens.next();
        if (token == "#" && is_first_of_line) {
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
            code.token(token);
        }
        is_first_of_line = false;
    }
    read.code = is_clear && !tokens.has_raw_string() ? code.take() : std::string(text);
    return read;
}

}  // namespace

std::string code_of(std::string_view text) {
    return read_text(text).code;
}

std::vector<std::string> included_headers(std::string_view text) {
    return read_text(text).headers;
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
};

DeviceText::DeviceText(std::string text) : state_(std::make_shared<State>()) {
    state_->text = std::move(text);
}

const std::string& DeviceText::text() const {
    return state_->text;
}

const DeviceText::State& DeviceText::read() const {
    // No std::call_once: where memory runs out, an exception that passes through it ends the process.
    if (state_->is_read.load(std::memory_order_acquire)) return *state_;
    const std::lock_guard lock(state_->mutex);
    if (state_->is_read.load(std::memory_order_relaxed)) return *state_;
    Text read = read_text(state_->text);
    Hash hash;
    hash.field(read.code);
    state_->code_hash = to_hex(hash.digest());
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

}  // namespace autotune
