#include "tuner/worker/protocol/protocol.h"

#include <gtest/gtest.h>

#include <random>

#include "src/core/error.h"

namespace autotune::tuner::protocol_test {
namespace {

Message sample_message() {
    Message message;
    message.body = {{"do", "open"}, {"slot", 3}, {"text", std::string(1000, 'x')}};
    for (int i = 0; i < 777; ++i) message.payload.push_back(static_cast<std::byte>(i));
    return message;
}

TEST(Protocol, AMessageCutAnywhereArrivesWhole) {
    const std::vector<std::byte> frame = encode(sample_message());
    for (std::size_t cut = 0; cut <= frame.size(); cut += 13) {
        Decoder decoder;
        decoder.feed(std::span(frame).first(cut));
        auto message = decoder.next();
        EXPECT_EQ(message.has_value(), cut == frame.size());
        decoder.feed(std::span(frame).subspan(cut));
        if (!message) message = decoder.next();
        ASSERT_TRUE(message.has_value());
        EXPECT_EQ(message->body, sample_message().body);
        EXPECT_EQ(message->payload, sample_message().payload);
    }
}

TEST(Protocol, MessagesSentTogetherComeOutOneByOne) {
    std::vector<std::byte> stream = encode({{{"n", 1}}, {}});
    const std::vector<std::byte> second = encode({{{"n", 2}}, {}});
    stream.insert(stream.end(), second.begin(), second.end());
    Decoder decoder;
    decoder.feed(stream);
    EXPECT_EQ(decoder.next()->body.at("n"), 1);
    EXPECT_EQ(decoder.next()->body.at("n"), 2);
    EXPECT_FALSE(decoder.next().has_value());
    EXPECT_FALSE(decoder.mid_message());
}

TEST(Protocol, EveryFlippedByteOfAFrameIsNoticed) {
    const std::vector<std::byte> frame = encode({{{"k", "value"}}, {std::byte{1}, std::byte{2}}});
    for (std::size_t at = 0; at < frame.size(); ++at) {
        std::vector<std::byte> altered = frame;
        altered[at] ^= std::byte{0x10};
        Decoder decoder;
        decoder.feed(altered);
        EXPECT_FALSE(decoder.next().has_value()) << "byte " << at;
    }
}

TEST(Protocol, AFrameThatClaimsToBeHugeIsRefusedBeforeItIsBuffered) {
    std::vector<std::byte> frame = encode({Json::object(), {}});
    frame[15] = std::byte{0x7F};  // the highest byte of the payload's length
    Decoder decoder;
    decoder.feed(frame);
    EXPECT_FALSE(decoder.next().has_value());
    EXPECT_EQ(decoder.broken(), "a frame that is too long");
}

TEST(Protocol, NothingComesOutOfABrokenStream) {
    Decoder decoder;
    decoder.feed(std::vector<std::byte>(64, std::byte{0x55}));
    EXPECT_FALSE(decoder.next().has_value());
    decoder.feed(encode(sample_message()));
    EXPECT_FALSE(decoder.next().has_value());
    EXPECT_FALSE(decoder.broken().empty());
}

TEST(Protocol, NoiseNeverCrashesTheDecoder) {
    std::mt19937 random(7);
    const std::vector<std::byte> frame = encode(sample_message());
    for (int round = 0; round < 2000; ++round) {
        std::vector<std::byte> noise = frame;
        for (int i = 0; i < 3; ++i) noise[random() % noise.size()] = static_cast<std::byte>(random());
        noise.resize(random() % noise.size());
        Decoder decoder;
        decoder.feed(noise);
        EXPECT_FALSE(decoder.next().has_value());  // altered or cut
    }
}

TEST(Protocol, TextThatIsNotUtf8IsReplacedNotRefused) {
    Decoder decoder;
    decoder.feed(encode({{{"log", "bad \xff\xfe bytes"}}, {}}));
    EXPECT_NE(decoder.next()->body.at("log").get<std::string>().find("bytes"), std::string::npos);
}

TEST(Protocol, AMessageAboveTheLimitIsOurBug) {
    Message message;
    message.body = Json::object();
    message.payload.resize(kMaxPayloadBytes + 1);
    EXPECT_THROW(encode(message), Error);
}

}  // namespace
}  // namespace autotune::tuner::protocol_test
