#include "src/catalogue/code_of.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/support/embedded_catalogue.h"

namespace autotune {
namespace {

using ::testing::ElementsAre;

TEST(CodeOf, DropsCommentsAndCollapsesWhiteSpace) {
    EXPECT_EQ(code_of("int a;  // words\n\n\tint /* more\nof them */ b;\n"), "int a ; int b ;");
    EXPECT_EQ(code_of("int a ;int b;"), code_of("int a;\r\nint b;\r\n"));
    EXPECT_EQ(code_of("// words alone\n"), "");
    EXPECT_EQ(code_of("int a; /* no end"), code_of("int a;"));
}

TEST(CodeOf, KeepsTokensApartThatStandApart) {
    EXPECT_EQ(code_of("a/**/b"), code_of("a b"));
    EXPECT_NE(code_of("a/**/b"), code_of("ab"));
    EXPECT_NE(code_of("a + +b"), code_of("a ++b"));
    EXPECT_NE(code_of("a - -b"), code_of("a --b"));
    EXPECT_NE(code_of("a > > b"), code_of("a >> b"));
    EXPECT_NE(code_of("a & &b"), code_of("a && b"));
    EXPECT_NE(code_of("1 .5"), code_of("1.5"));
    EXPECT_NE(code_of("0x1p -3"), code_of("0x1p-3"));
    EXPECT_EQ(code_of("a<<=b"), code_of("a <<= b"));
    EXPECT_EQ(code_of("a->b"), code_of("a -> b"));
    EXPECT_EQ(code_of("1'000+2"), code_of("1'000 + 2"));
}

TEST(CodeOf, KeepsLiteralsAsTheyAre) {
    EXPECT_EQ(code_of(R"(f("a  // b /* c",'\'' , '"'))"), R"(f ( "a  // b /* c" , '\'' , '"' ))");
    EXPECT_NE(code_of(R"("a b")"), code_of(R"("a  b")"));
    EXPECT_NE(code_of(R"("a" "b")"), code_of(R"("ab")"));
    EXPECT_NE(code_of("u8\"a\""), code_of("u8 \"a\""));
    EXPECT_NE(code_of("\"a\"_x"), code_of("\"a\" _x"));
    EXPECT_EQ(code_of("\"\\\\\"  // words"), "\"\\\\\"");
}

TEST(CodeOf, ALineCommentGoesOnBehindABackslash) {
    EXPECT_EQ(code_of("int a; // words \\\n still words\nint b;"), "int a ; int b ;");
    EXPECT_EQ(code_of("int a; // words \\\r\n still words\r\nint b;"), "int a ; int b ;");
    EXPECT_EQ(code_of("int long\\\ner;"), "int longer ;");
}

// Compilers disagree on whether such a line is continued, and in a raw string white space counts.
TEST(CodeOf, TakesUnclearTextsAsTheyAre) {
    for (const std::string text : {"int a; // words \\ \nint b;", "auto a = R\"x( // b )x\";  // words", "u8R\"(a)\"  ;"})
        EXPECT_EQ(code_of(text), text);
    EXPECT_EQ(code_of("int R; // R\"(\n"), "int R ;");
}

// If the code can depend on white space, comments or positions, or compilers differ, the whole text counts.
TEST(CodeOf, TakesTextsAsTheyAreThatShowTheirSpelling) {
    for (const std::string text : {"#define A(x) #x\nA(1 +  2)  // words", "%:define A  1\n", "int a<:3:>;  // words", "<%  %>",
                                   "int a;\r  int b;", "int line = __LINE__;  // words", "assert(a  > 0);",
                                   "auto here = std::source_location::current();  //", "int a\\u0041;  //",
                                   "?"
                                   "?=define A  1\n"})
        EXPECT_EQ(code_of(text), text);
    EXPECT_EQ(code_of("a<::b>  c"), "a < :: b > c");  // two operators: no bracket
}

// An argument of one token contains no white space, and an undefined macro is not visible to other texts.
TEST(CodeOf, StringsOfMacrosShowTheSpellingOfSeveralTokens) {
    const std::string macro = "#define A(x) #x\n", passes = "#define B(y) A(y)\n", end = "\n#undef A\n#undef B\n";
    EXPECT_FALSE(shows_spelling(macro + "A(1) A( b ) A(\"a  b\") A()" + end));
    EXPECT_EQ(code_of(macro + "A(1)" + end), code_of(macro + "A( /* words */ 1 )  // words" + end));
    EXPECT_FALSE(shows_spelling(macro + passes + "B(1) B(b)" + end));
    EXPECT_TRUE(shows_spelling(macro + "A(1 + 2)" + end));
    EXPECT_TRUE(shows_spelling(macro + passes + "B(f(1))" + end));
    EXPECT_TRUE(shows_spelling(macro + "#define B(y) A(y + 1)\nB(2)" + end));
    EXPECT_TRUE(shows_spelling(macro + "USE(A)" + end));
    EXPECT_TRUE(shows_spelling(macro + "#include \"x.cuh\"" + end));
    EXPECT_TRUE(shows_spelling(macro));  // Another text may use the macro.
    EXPECT_TRUE(shows_spelling("#define A(...) f(\\\n #__VA_ARGS__)\nA(1)\n#undef A\n"));
    EXPECT_FALSE(shows_spelling("#define A(x) a##x\n#if A\n#endif\n"));
}

TEST(CodeOf, PassesAByteOrderMark) {
    const std::string mark = "\xEF\xBB\xBF";
    EXPECT_EQ(code_of(mark + "#include \"x.cuh\"\n"), code_of("#include \"x.cuh\"\n"));
    EXPECT_THAT(included_headers(mark + "#include \"x.cuh\"\n"), ElementsAre("x.cuh"));
}

TEST(CodeOf, FindsHeadersBehindRawStringsAndDigraphs) {
    EXPECT_THAT(included_headers("auto a = R\"(\")\";\n#include \"x.cuh\"\n"), ElementsAre("x.cuh"));
    EXPECT_THAT(included_headers("auto a = u8R\"-(\n#include \"y.cuh\"\n)\"\n)-\";\n#include \"x.cuh\"\n"), ElementsAre("x.cuh"));
    EXPECT_THAT(included_headers("%:include \"x.cuh\"\n"), ElementsAre("x.cuh"));
}

TEST(CodeOf, KeepsDirectivesOnLinesOfTheirOwn) {
    EXPECT_EQ(code_of("int a;\n  #  pragma unroll 1  // words\nint b;"), "int a ;\n# pragma unroll 1\nint b ;");
    EXPECT_EQ(code_of("#define A 1 \\\n  + 2\nA"), "# define A 1 + 2\nA");
    EXPECT_EQ(code_of("#define A 1 /* words\nof two lines */ + 2\nA"), "# define A 1 + 2\nA");
    EXPECT_EQ(code_of("#if A\r\n#endif\r\n"), "# if A\n# endif\n");
    EXPECT_EQ(code_of("/* words */ #define A"), "# define A\n");
    EXPECT_EQ(code_of("#define A"), code_of("#define A\n"));
    EXPECT_EQ(code_of("#endif // words"), code_of("#endif\n"));
    EXPECT_NE(code_of("#define A 1\n+ 2"), code_of("#define A 1 + 2\n"));
    EXPECT_NE(code_of("#define A(x) x"), code_of("#define A (x) x"));
    EXPECT_EQ(code_of("#define A( x )  x"), code_of("#define A(x) x"));
    EXPECT_EQ(code_of("#define A(x) a##x\nA(1)"), "# define A( x ) a ## x\nA ( 1 )");
    EXPECT_EQ(code_of("a # b"), "a # b");
}

TEST(CodeOf, NamesHeadersWithoutTheirFolders) {
    EXPECT_EQ(code_of("#include \"a/b/x.cuh\"\nint a;"), "# include \"x.cuh\"\nint a ;");
    EXPECT_EQ(code_of("#  include\t\"x.cuh\"  // why\n"), code_of("#include \"c/x.cuh\"\n"));
    EXPECT_NE(code_of("#include \"x.cuh\""), code_of("#include \"y.cuh\""));
    EXPECT_NE(code_of("#include <x.cuh>"), code_of("#include \"x.cuh\""));
    EXPECT_NE(code_of("#include <a/x.cuh>"), code_of("#include <b/x.cuh>"));
    EXPECT_THAT(
        included_headers("#include \"a/x.cuh\"\n// #include \"a/y.cuh\"\n#include <z.cuh>\n # include \"w.cuh\" // words\n"),
        ElementsAre("a/x.cuh", "w.cuh"));
}

TEST(CodeOf, PlaceholdersArePartsOfTheirTokens) {
    EXPECT_EQ(code_of("using In=${in_type};"), "using In = ${in_type} ;");
    EXPECT_EQ(code_of("${symbol}_reduce"), "${symbol}_reduce");
    EXPECT_NE(code_of("a_${b}"), code_of("a_ ${b}"));
    EXPECT_EQ(code_of("${ open\n+ ${"), "${ open + ${");
}

TEST(CodeOf, OfCodeIsTheSame) {
    for (const TemplateHeader& header : test::embedded_catalogue().headers())
        EXPECT_EQ(code_of(code_of(header.text())), code_of(header.text())) << header.name;
}

// Random tokens, with random white space and comments between them. Line ends of directives are tokens, too.
class RandomText {
  public:
    explicit RandomText(unsigned seed) : random_(seed) {
        for (int line = 0; line < 12; ++line) {
            if (pick(4) == 0) {
                tokens_.insert(tokens_.end(), {"\n", "#", "define", "NAME_" + std::to_string(line)});
                add_words(pick(4));
                tokens_.emplace_back("\n");
            }
            add_words(1 + pick(8));
        }
    }
    // The tokens, unchanged and in one random spelling.
    std::string plain() const {
        std::string text;
        for (const std::string& token : tokens_) text += token == "\n" ? token : token + " ";
        return text;
    }
    std::string spelled() {
        std::string text;
        bool is_directive = false;
        for (std::size_t i = 0; i < tokens_.size(); ++i) {
            if (tokens_[i] == "#") is_directive = true;
            if (tokens_[i] == "\n") is_directive = false;
            const bool is_alone = i + 1 < tokens_.size() && stands_alone(tokens_[i], tokens_[i + 1]);
            text += tokens_[i];
            if (!is_alone || pick(2) == 0) text += space(is_directive);
        }
        return text;
    }

  private:
    std::size_t pick(std::size_t below) { return std::uniform_int_distribution<std::size_t>(0, below - 1)(random_); }
    void add_words(std::size_t count) {
        static const std::vector<std::string> words = {
            "a",  "block_m", "0x1Fu",  "1.5e-3f", "\"x // y\"", "'\\''", "${k}", "+",        "++", "(", ")", "<", ">>=", "::",
            "->", "...",     "a_${k}", ";",       "{",          "}",     "##",   "\"\\\"\"", "&&", "&", "/", "*", "%",   "L'a'"};
        for (std::size_t i = 0; i < count; ++i) tokens_.push_back(words[pick(words.size())]);
    }
    // Whether the tokens need no separator because neither becomes part of a longer token.
    static bool stands_alone(const std::string& before, const std::string& after) {
        const auto is_single = [](const std::string& token) {
            return token == "(" || token == ")" || token == ";" || token == "{" || token == "}";
        };
        return before != "\n" && after != "\n" && after != "#" &&
               (is_single(before) || (is_single(after) && !before.starts_with("NAME_")));
    }
    std::string space(bool is_directive) {
        static const std::vector<std::string> inside = {" ", "\t", "  ", " \\\n ", " /* x */ ", " /* \" \n */ ", "\\\r\n "};
        static const std::vector<std::string> outside = {"\n", " \r\n\t", " // it's #1 \\\n more\n", "\n\n/**/\n"};
        std::string text = inside[pick(inside.size())];
        while (pick(3) == 0) text += is_directive || pick(2) == 0 ? inside[pick(inside.size())] : outside[pick(outside.size())];
        return text;
    }

    std::mt19937 random_;
    std::vector<std::string> tokens_;
};

TEST(CodeOf, IsTheSameForEverySpellingOfTheTokens) {
    std::map<std::string, std::string> text_of_code;
    for (unsigned seed = 0; seed < 400; ++seed) {
        RandomText text(seed);
        const std::string plain = text.plain(), code = code_of(plain);
        for (int i = 0; i < 5; ++i) {
            const std::string spelled = text.spelled();
            ASSERT_EQ(code_of(spelled), code) << "seed " << seed << ":\n" << spelled;
        }
        ASSERT_TRUE(text_of_code.emplace(code, plain).second) << "seed " << seed << ":\n" << plain;
    }
}

}  // namespace
}  // namespace autotune
