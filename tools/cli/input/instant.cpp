#include "tools/cli/input/instant.h"

#include <cctype>
#include <climits>

#include "src/core/error.h"

namespace autotune::cli {
namespace {

// Takes the parts of a text one after the other. If a part is missing, all later parts count as missing.
class Parts {
  public:
    explicit Parts(std::string_view text) : rest_(text) {}

    int digits(std::size_t count) {
        int value = 0;
        for (std::size_t i = 0; i < count; ++i) {
            if (rest_.empty() || std::isdigit(static_cast<unsigned char>(rest_.front())) == 0) return fail();
            value = 10 * value + (rest_.front() - '0');
            rest_.remove_prefix(1);
        }
        return value;
    }
    // Takes one of `letters`, in either case. Returns 0 if none comes next.
    char one_of(std::string_view letters) {
        if (rest_.empty()) return 0;
        const char next = static_cast<char>(std::toupper(static_cast<unsigned char>(rest_.front())));
        if (letters.find(next) == std::string_view::npos) return 0;
        rest_.remove_prefix(1);
        return next;
    }
    void expect(std::string_view letters) {
        if (one_of(letters) == 0) fail();
    }
    void skip_digits() {
        digits(1);
        while (!rest_.empty() && std::isdigit(static_cast<unsigned char>(rest_.front())) != 0) rest_.remove_prefix(1);
    }
    bool is_whole() const { return is_good_ && rest_.empty(); }

  private:
    int fail() {
        is_good_ = false;
        rest_ = {};
        return 0;
    }
    std::string_view rest_;
    bool is_good_ = true;
};

}  // namespace

std::chrono::system_clock::time_point parse_instant(std::string_view text, const std::string& what) {
    using namespace std::chrono;
    Parts parts(text);
    const int y = parts.digits(4);
    parts.expect("-");
    const int m = parts.digits(2);
    parts.expect("-");
    const int d = parts.digits(2);
    parts.expect("T ");
    const int hour = parts.digits(2);
    parts.expect(":");
    const int minute = parts.digits(2);
    parts.expect(":");
    const int second = parts.digits(2);
    if (parts.one_of(".") != 0) parts.skip_digits();
    const char zone = parts.one_of("Z+-");
    int offset_minutes = 0;
    if (zone == '+' || zone == '-') {
        const int hours_east = parts.digits(2);
        parts.expect(":");
        const int minutes_east = parts.digits(2);
        offset_minutes = (zone == '-' ? -1 : 1) * (60 * hours_east + minutes_east);
        if (hours_east > 23 || minutes_east > 59) offset_minutes = INT_MAX;
    }
    const year_month_day date{year(y), month(static_cast<unsigned>(m)), day(static_cast<unsigned>(d))};
    if (!parts.is_whole() || zone == 0 || !date.ok() || hour > 23 || minute > 59 || second > 60 || offset_minutes == INT_MAX)
        throw Error(ErrorCode::usage,
                    what + " is a moment with its time zone such as 2026-11-28T20:05:00Z, not '" + std::string(text) + "'");
    return sys_days(date) + hours(hour) + minutes(minute) + seconds(second) - minutes(offset_minutes);
}

FlagCheck instant_value() {
    return [](const std::string& what, const std::string& value) { parse_instant(value, what); };
}

}  // namespace autotune::cli
