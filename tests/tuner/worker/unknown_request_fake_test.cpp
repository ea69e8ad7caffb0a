// A worker that receives an unknown request reports it and ends, because its peer is a different program than expected.
#include <poll.h>
#include <unistd.h>

#include "src/core/error.h"
#include "tests/support/fake/fake_test.h"
#include "tuner/worker/gpu_worker_client.h"

namespace autotune::tuner::unknown_request_fake_test {
namespace {

using autotune::test::fake_test;
using autotune::test::in_fake_process;

std::vector<Message> all_until_closed(WorkerProcess& process) {
    std::vector<Message> all;
    for (int i = 0; i < 500 && !process.closed(); ++i) {
        pollfd fd{process.read_fd(), POLLIN, 0};
        ::poll(&fd, 1, 20);
        for (Message& message : process.receive()) all.push_back(std::move(message));
    }
    return all;
}

void expect_refusal(const std::string& kind) {
    WorkerProcess worker(fake::autotune_binary(), {"__worker", kind, "--parent", std::to_string(::getpid())});
    worker.send({{{"do", "dance"}}, {}});
    worker.flush();
    const std::vector<Message> said = all_until_closed(worker);
    ASSERT_FALSE(said.empty());
    EXPECT_EQ(said.back().body.value("event", ""), "fatal");
    EXPECT_EQ(said.back().body.value("message", ""), "the " + kind + " worker does not know the request 'dance'");
    EXPECT_EQ(worker.how_it_ended(), "exited with 1");
}

TEST(UnknownRequest, EndsTheCompileWorkerWithAMessage) {
    fake::Sandbox sandbox;
    if (in_fake_process(sandbox)) expect_refusal("compile");
}

TEST(UnknownRequest, EndsTheBenchWorkerWithAMessage) {
    fake::Sandbox sandbox;
    if (in_fake_process(sandbox)) expect_refusal("gpu");
}

TEST(UnknownRequest, IsAnInternalErrorOfTheCoordinator) {
    fake_test("", [] {
        WorkerSettings settings;
        settings.binary = fake::autotune_binary();
        GpuWorkerClient client(settings);
        client.send({{{"do", "dance"}}, {}}, {});
        try {
            for (int i = 0; i < 500; ++i) {
                std::vector<pollfd> fds;
                client.add_to(fds);
                ::poll(fds.data(), fds.size(), 20);
                client.serve();
                ASSERT_FALSE(client.take_reply().has_value()) << "a request that nobody knows was answered";
            }
            FAIL() << "nothing came";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::internal);
            EXPECT_NE(std::string(error.what()).find("dance"), std::string::npos);
        }
    });
}

TEST(WorkerBuild, AnotherThanTheCommandsIsAnErrorThatSaysWhatToDo) {
    fake_test("", [] {
        WorkerSettings settings;
        settings.binary = fake::autotune_binary();
        settings.build = "0123abcd";
        GpuWorkerClient client(settings);
        client.send({{{"do", "drop"}, {"fixture", 0}}, {}}, {});
        try {
            for (int i = 0; i < 1500; ++i) {
                std::vector<pollfd> fds;
                client.add_to(fds);
                ::poll(fds.data(), fds.size(), 20);
                client.serve();
            }
            FAIL() << "nothing came";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::system);
            EXPECT_NE(std::string(error.what())
                          .find(") than this command (0123abcd): the command was replaced while it ran; what was measured is "
                                "kept, run the "
                                "same command again to go on"),
                      std::string::npos)
                << error.what();
        }
    });
}

TEST(UnknownRequest, AKindOfWorkerThatThereIsNotIsNamed) {
    fake::Sandbox sandbox;
    const fake::Outcome dance = sandbox.autotune({"__worker", "dance"});
    EXPECT_EQ(dance.exit_code, 2);
    EXPECT_EQ(dance.err, "autotune: there is no worker 'dance': compile, gpu and lane are known\n");
    const fake::Outcome nothing = sandbox.autotune({"__worker"});
    EXPECT_EQ(nothing.exit_code, 2);
    EXPECT_NE(nothing.err.find("compile, gpu or lane"), std::string::npos);
}

}  // namespace
}  // namespace autotune::tuner::unknown_request_fake_test
