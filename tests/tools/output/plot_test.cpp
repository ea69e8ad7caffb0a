// Tests of drawings as text. A reader of the file can rely on these properties.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/core/error.h"
#include "tools/cli/plot/charts.h"
#include "tools/cli/plot/scale.h"

namespace autotune::plot {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& text, const std::string& what) {
    std::size_t count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
}

TEST(Scale, TicksAreRoundAndInside) {
    EXPECT_THAT(scale_for({0, 640}, false).ticks(), ElementsAre(0, 200, 400, 600, 800));
    EXPECT_THAT(scale_for({0.96, 1.04}, false).ticks(),
                ElementsAre(testing::DoubleEq(0.96), testing::DoubleNear(0.98, 1e-9), testing::DoubleEq(1),
                            testing::DoubleNear(1.02, 1e-9), testing::DoubleNear(1.04, 1e-9)));
}

TEST(Scale, ALogarithmOfManyDecadesShowsPowersOfTen) {
    EXPECT_THAT(Scale(1, 10'000, true).ticks(), ElementsAre(1, 10, 100, 1000, 10'000));
    EXPECT_THAT(Scale(1, 20, true).ticks(), ElementsAre(1, 2, 5, 10, 20));
}

TEST(Scale, PlacesValuesLinearlyOrByLogarithm) {
    EXPECT_DOUBLE_EQ(Scale(0, 10, false).onto(100, 200).at(5), 150);
    EXPECT_DOUBLE_EQ(Scale(1, 100, true).onto(100, 200).at(10), 150);
    EXPECT_DOUBLE_EQ(Scale(0, 10, false).onto(200, 100).at(10), 100) << "screens count downwards";
}

TEST(Scale, NothingAndOneValueStillHaveARange) {
    EXPECT_LT(scale_for({}, false).low(), scale_for({}, false).high());
    EXPECT_LT(scale_for({5, 5}, false).low(), scale_for({5, 5}, false).high());
    EXPECT_LT(scale_for({5}, true).low(), scale_for({5}, true).high());
}

TEST(Scale, BigNumbersAreShort) {
    EXPECT_EQ(short_text(0.5), "0.5");
    EXPECT_EQ(short_text(1200), "1200");
    EXPECT_EQ(short_text(16384), "16.38k");
    EXPECT_EQ(short_text(2.5e9), "2.5G");
}

TEST(Svg, WordsCannotBecomeMarkup) {
    Svg svg(10, 10);
    svg.text({1, 1}, "<script>alert('a & b')</script>\x01", "words");
    EXPECT_THAT(svg.element(), AllOf(Not(HasSubstr("<script>")), HasSubstr("&lt;script&gt;alert(&#39;a &amp; b&#39;)")));
    EXPECT_EQ(svg.element().find('\x01'), std::string::npos);
}

TEST(Svg, ADocumentIsSelfContainedAndHasBothSchemes) {
    const std::string text = Svg(10, 10).document();
    EXPECT_THAT(text, AllOf(HasSubstr("prefers-color-scheme:dark"), HasSubstr("class=\"ground\""), HasSubstr("#0d1117")));
    EXPECT_EQ(count_of(text, "http"), 1u) << "the name space alone";
    EXPECT_THAT(text, AllOf(Not(HasSubstr("url(")), Not(HasSubstr("<script")), Not(HasSubstr("href"))));
}

TEST(Svg, ACoordinateThatIsNotANumberIsOurBug) {
    Svg svg(10, 10);
    EXPECT_THROW(svg.line({0, 0}, {NAN, 1}, "axis"), Error);
}

TEST(Bars, EachHasItsLabelAndAValueItsLength) {
    const std::string text =
        draw(BarChart{.heading = {"ladder"},
                      .value_title = "TFLOP/s",
                      .bars = {{.label = "naive", .value = 10, .text = "10"}, {.label = "broken", .text = "crashed"}}})
            .element();
    EXPECT_THAT(text, AllOf(HasSubstr(">naive<"), HasSubstr(">broken<"), HasSubstr(">crashed<"), HasSubstr("TFLOP/s")));
    EXPECT_EQ(count_of(text, "<rect"), 1u) << "who has no value has no bar";
}

TEST(Xy, SamplesThatCannotBeShownAreLeftOut) {
    const XyChart chart{
        .heading = {"t"},
        .y_logarithmic = true,
        .series = {{.name = "s", .samples = {{.x = 1, .y = 2}, {.x = 2, .y = NAN}, {.x = 3, .y = 0}, {.x = INFINITY, .y = 1}}}}};
    EXPECT_EQ(count_of(draw(chart).element(), "<title>"), 0u);
    // One circle is the legend's dot, one the only sample.
    EXPECT_EQ(count_of(draw(chart).element(), "<circle"), 2u);
}

TEST(Xy, AnIntervalIsALineAndAMarkHasItsTip) {
    const XyChart chart{.heading = {"t"},
                        .series = {{.name = "", .samples = {{.x = 1, .y = 2, .low = 1, .high = 3, .title = "a tip"}}}}};
    EXPECT_THAT(draw(chart).element(), AllOf(HasSubstr("whisker"), HasSubstr("<title>a tip</title>")));
}

TEST(Xy, AnEmptyChartIsADrawing) {
    EXPECT_THAT(draw(XyChart{.heading = {"nothing"}}).element(), HasSubstr(">nothing<"));
}

TEST(Xy, LongNamesOfCategoriesAreTurnedAndMakeTheDrawingHigher) {
    XyChart chart{.heading = {"t"}, .categories = {"a", "b"}, .series = {{.name = "s", .samples = {{.x = 0, .y = 1}}}}};
    const double low = draw(chart).height();
    chart.categories.assign(40, "16384x16384x8192");
    EXPECT_GT(draw(chart).height(), low);
    EXPECT_THAT(draw(chart).element(), HasSubstr("rotate(-90"));
}

TEST(Xy, OfMoreNamesThanThereIsRoomForSomeStand) {
    XyChart chart{.heading = {"t"}, .categories = {}, .series = {}, .width = 460};
    chart.categories.assign(100, "16384x16384x8192");
    const std::size_t shown = count_of(draw(chart).element(), ">16384x16384x8192<");
    EXPECT_GE(shown, 25u);
    EXPECT_LE(shown, 34u);
}

TEST(Xy, ALongSubtitleIsBrokenAndMakesTheDrawingHigher) {
    XyChart chart{.heading = {"t", "above 1 autotune is faster"}, .series = {{.name = "s"}}, .width = 460};
    const double low = draw(chart).height();
    chart.heading.subtitle += "; paired medians of interleaved rounds, with 95 % intervals of the ratio";
    EXPECT_GT(draw(chart).height(), low);
    EXPECT_EQ(count_of(draw(chart).element(), "class=\"muted\""), 2u);
}

TEST(Stacked, IsAsHighAsAllTogether) {
    const Svg all = stacked({Svg(100, 40), Svg(300, 60)});
    EXPECT_EQ(all.width(), 300);
    EXPECT_EQ(all.height(), 100);
}

}  // namespace
}  // namespace autotune::plot
