// What goes wrong: who gets which error, and what still works.
#include "lanes.hpp"

namespace symccl::test {
namespace {

using std::chrono::milliseconds;

TEST(ErrorsTest, RefusedArgumentsBreakNothing) {
  Lanes lanes(2);
  int value = 5, got = 0;
  const std::vector<Message> batch{
      {Message::Way::send, &value, 4, 2, 0, false},           {Message::Way::send, &value, 4, kAnySource, 0, false},
      {Message::Way::recv, &value, 4, -2, 0, false},          {Message::Way::send, &value, 4, 1, kAnyTag, false},
      {Message::Way::recv, &value, 4, 1, -2, false},          {Message::Way::recv, nullptr, 4, 1, 0, false},
      {Message::Way::send, &value, sizeof value, 1, 9, false}};
  const auto requests = lanes.lane(0).start(batch, Deadline::never());
  ASSERT_EQ(requests.size(), batch.size());
  EXPECT_TRUE(failsWith(requests[0]->status(), Code::invalid, {"send to rank 2", "ranks 0 to 1"}));
  EXPECT_TRUE(failsWith(requests[1]->status(), Code::invalid, {"send to rank -1"}));
  EXPECT_TRUE(failsWith(requests[2]->status(), Code::invalid, {"recv from rank -2", "any source"}));
  EXPECT_TRUE(failsWith(requests[3]->status(), Code::invalid, {"send with tag -1"}));
  EXPECT_TRUE(failsWith(requests[4]->status(), Code::invalid, {"recv with tag -2", "any tag"}));
  EXPECT_TRUE(failsWith(requests[5]->status(), Code::invalid, {"recv of 4 B at a null pointer"}));
  EXPECT_TRUE(ends(lanes.recv(1, &got, sizeof got, 0, 9)));
  EXPECT_TRUE(ends(requests[6]));
  EXPECT_EQ(got, 5);
  EXPECT_FALSE(lanes.group(0).failed());
}

class TruncateTest : public testing::TestWithParam<std::size_t> {};

TEST_P(TruncateTest, LongerThanTheReceiveIsStickyAndNamesBothSizes) {
  const std::size_t bytes = GetParam();
  for (bool posted : {true, false}) {
    Lanes lanes(2);
    Buffer out(bytes), in(bytes);
    RequestPtr receive, send;
    if (!posted) send = lanes.send(0, out.data(), bytes, 1, 6);
    receive = lanes.recv(1, in.data(), bytes - 1, 0, 6);
    if (posted) send = lanes.send(0, out.data(), bytes, 1, 6);
    const std::vector<std::string> says{"rank 0 sent " + std::to_string(bytes) + " B with tag 6",
                                        "takes at most " + std::to_string(bytes - 1) + " B"};
    EXPECT_TRUE(failsWith(receive->wait(Deadline::never()), Code::truncate, says));
    EXPECT_EQ(receive->status().error().rank(), 0);
    EXPECT_TRUE(in.holds(0, 0)) << "the buffer was touched";
    EXPECT_TRUE(failsWith(lanes.recv(1, in.data(), 1, 0, 7)->wait(Deadline::never()), Code::truncate, says))
        << "sticky";
    EXPECT_TRUE(failsWith(lanes.recv(0, in.data(), 1, 1, 7)->wait(Deadline::never()), Code::truncate, {"rank 1"}));
    if (!send->done()) {
      EXPECT_TRUE(failsWith(send->wait(Deadline::never()), Code::truncate, {}));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(, TruncateTest, testing::Values(1, 40, 4096, 4097, 300000), testing::PrintToStringParamName());

TEST(ErrorsTest, ShorterIsAnErrorOnlyIfExact) {
  Lanes lanes(2);
  std::uint64_t out = 1, in = 0;
  EXPECT_TRUE(ends(lanes.send(0, &out, 3, 1, 0)));
  const RequestPtr shorter = lanes.recv(1, &in, 8, 0, 0);
  EXPECT_TRUE(ends(shorter));
  EXPECT_EQ(shorter->bytes(), 3u);
  EXPECT_TRUE(ends(lanes.send(0, &out, 8, 1, 0)));
  EXPECT_TRUE(ends(lanes.start(1, {Message::Way::recv, &in, 8, 0, 0, true})));
  EXPECT_TRUE(ends(lanes.send(0, &out, 3, 1, 4)));
  const RequestPtr exact = lanes.start(1, {Message::Way::recv, &in, 8, 0, 4, true});
  EXPECT_TRUE(
      failsWith(exact->wait(Deadline::never()), Code::truncate, {"rank 0 sent 3 B with tag 4", "takes exactly 8 B"}));
}

TEST(ErrorsTest, DeadlineNamesTheRankAndItsState) {
  GroupOptions options;
  options.name = "dp";
  Lanes lanes(3, options);
  int value = 0;
  const RequestPtr receive =
      lanes.start(1, {Message::Way::recv, &value, 4, 2, 8, false}, Deadline::in(milliseconds(30)));
  const RequestPtr other = lanes.recv(1, &value, 4, 0, 0);
  const Status status = receive->wait(Deadline::never());
  EXPECT_TRUE(failsWith(status, Code::timeout, {"recv from rank 2 (tag 8, 4 B)", "'dp'", "timed out", "rank 2 (pid "}));
  EXPECT_TRUE(status.error().message().find("rank 0 (pid") == std::string::npos) << status.error().message();
  EXPECT_EQ(status.error().rank(), 2);
  EXPECT_TRUE(failsWith(other->wait(Deadline::never()), Code::timeout, {}));
  // The peers learn of it.
  EXPECT_TRUE(
      failsWith(lanes.recv(0, &value, 4, 1, 0)->wait(Deadline::never()), Code::timeout, {"rank 1's deadline passed"}));
}

TEST(ErrorsTest, DeadlineOfASendThatNobodyReceives) {
  Lanes lanes(2);
  Buffer out(100000);
  const RequestPtr send =
      lanes.start(0, {Message::Way::send, out.data(), out.bytes(), 1, 8, false}, Deadline::in(milliseconds(30)));
  EXPECT_TRUE(
      failsWith(send->wait(Deadline::never()), Code::timeout, {"send to rank 1 (tag 8, 100000 B)", "rank 1 (pid "}));
}

TEST(ErrorsTest, DeadlinePassesWithoutAnyoneWaiting) {
  Lanes lanes(2);
  int value = 0;
  const RequestPtr late =
      lanes.start(0, {Message::Way::recv, &value, 4, kAnySource, kAnyTag, false}, Deadline::in(milliseconds(20)));
  const RequestPtr later = lanes.recv(0, &value, 4, 1, 5);
  std::atomic<bool> called{false};
  late->onDone([&](const Status& status) {
    EXPECT_TRUE(failsWith(status, Code::timeout, {"recv from any rank (any tag, 4 B)", "rank 1 (pid "}));
    called = true;
  });
  while (!called) std::this_thread::yield();
  EXPECT_TRUE(failsWith(later->wait(Deadline::never()), Code::timeout, {}));
}

TEST(ErrorsTest, AWaitThatExpiresCancelsNothing) {
  Lanes lanes(2);
  int value = 0, out = 6;
  const RequestPtr receive = lanes.recv(0, &value, 4, 1, 0);
  EXPECT_TRUE(failsWith(receive->wait(Deadline::in(milliseconds(5))), Code::timeout, {"the operation goes on"}));
  EXPECT_TRUE(ends(lanes.send(1, &out, 4, 0, 0)));
  EXPECT_TRUE(ends(receive));
  EXPECT_EQ(value, 6);
}

TEST(ErrorsTest, AbortEndsWhatIsOpenHereAndThere) {
  Lanes lanes(2);
  int value = 0;
  std::vector<RequestPtr> open{lanes.recv(0, &value, 4, 1, 0), lanes.recv(1, &value, 4, 0, 0),
                               lanes.recv(1, &value, 4, kAnySource, 0)};
  std::thread waiting(
      [&] { EXPECT_TRUE(failsWith(open[1]->wait(Deadline::never()), Code::aborted, {"rank 0 aborted"})); });
  const Error error = lanes.group(0).fail(Error(Code::aborted, "abort() was called"), -1, 0);
  EXPECT_EQ(error.code(), Code::aborted);
  waiting.join();
  EXPECT_TRUE(failsWith(open[0]->wait(Deadline::never()), Code::aborted, {"abort() was called"}));
  EXPECT_TRUE(failsWith(open[2]->wait(Deadline::never()), Code::aborted, {"rank 0 aborted"}));
  EXPECT_TRUE(failsWith(lanes.send(0, &value, 4, 1, 0)->wait(Deadline::never()), Code::aborted, {}));
}

TEST(ErrorsTest, ADeadPeerFailsWhatNeedsItAlone) {
  Lanes lanes(4);
  int value = 0, out = 3;
  EXPECT_TRUE(ends(lanes.send(3, &out, 4, 0, 1)));
  lanes.groups().markGone(3);
  // What it had sent can be received; messages of the others go on.
  EXPECT_TRUE(ends(lanes.recv(0, &value, 4, 3, 1)));
  EXPECT_EQ(value, 3);
  const RequestPtr any = lanes.recv(0, &value, 4, kAnySource, 2);
  const RequestPtr named = lanes.recv(0, &value, 4, 1, 2);
  EXPECT_FALSE(any->wait(Deadline::in(milliseconds(120))));
  EXPECT_FALSE(any->done());
  EXPECT_TRUE(ends(lanes.send(2, &out, 4, 0, 2)));
  EXPECT_TRUE(ends(any));
  EXPECT_EQ(any->source(), 2);
  EXPECT_TRUE(ends(lanes.send(1, &out, 4, 0, 2)));
  EXPECT_TRUE(ends(named));
  EXPECT_FALSE(lanes.group(0).failed());
  // A receive from it does fail.
  EXPECT_TRUE(failsWith(lanes.recv(0, &value, 4, 3, 1)->wait(Deadline::never()), Code::dead,
                        {"recv from rank 3", "rank 3 (pid", "is gone"}));
}

TEST(ErrorsTest, ASendToADeadPeerFails) {
  Lanes lanes(2);
  Buffer out(5000);
  const RequestPtr before = lanes.send(0, out.data(), 5000, 1, 0);
  lanes.groups().markGone(1);
  EXPECT_TRUE(failsWith(before->wait(Deadline::never()), Code::dead, {"send to rank 1", "is gone"}));
  Lanes again(2);
  again.groups().markGone(1);
  EXPECT_TRUE(failsWith(again.send(0, out.data(), 8, 1, 0)->wait(Deadline::never()), Code::dead,
                        {"send to rank 1", "is gone"}));
}

TEST(ErrorsTest, AnySourceFailsWhenAllOthersAreGone) {
  Lanes lanes(3);
  int value = 0;
  const RequestPtr any = lanes.recv(0, &value, 4, kAnySource, 0);
  lanes.groups().markGone(1);
  EXPECT_FALSE(any->wait(Deadline::in(milliseconds(120))));
  EXPECT_FALSE(any->done());
  lanes.groups().markGone(2);
  EXPECT_TRUE(failsWith(any->wait(Deadline::never()), Code::dead, {"recv from any rank", "is gone"}));
}

TEST(ErrorsTest, AfterADestructionSmallMessagesCanStillBeReceived) {
  Lanes lanes(2);
  Buffer small(8), eager(3000), large(50000), located(lanes, 9000);
  small.fill(1);
  eager.fill(2);
  std::vector<RequestPtr> sends{lanes.send(0, small.data(), 8, 1, 0), lanes.send(0, eager.data(), 3000, 1, 1),
                                lanes.send(0, large.data(), 50000, 1, 2), lanes.send(0, located.data(), 9000, 1, 3)};
  lanes.group(0).destroyed(0);
  lanes.lane(0).stop(lanes.group(0).status());
  EXPECT_TRUE(ends(sends[0]));
  EXPECT_TRUE(ends(sends[1]));
  EXPECT_TRUE(failsWith(sends[2]->wait(Deadline::never()), Code::destroyed, {}));
  EXPECT_TRUE(failsWith(sends[3]->wait(Deadline::never()), Code::destroyed, {}));
  Buffer in(50000), in2(50000);
  EXPECT_TRUE(ends(lanes.recv(1, in.data(), 50000, 0, 1)));
  EXPECT_TRUE(in.holds(2, 3000));
  EXPECT_TRUE(ends(lanes.recv(1, in2.data(), 50000, kAnySource, 0)));
  EXPECT_TRUE(in2.holds(1, 8));
  EXPECT_FALSE(lanes.group(1).failed());
  EXPECT_TRUE(failsWith(lanes.recv(1, in.data(), 50000, 0, 3)->wait(Deadline::never()), Code::destroyed,
                        {"rank 0 destroyed its end"}));
}

TEST(ErrorsTest, ADestroyedPeerFailsOpenReceivesFromIt) {
  Lanes lanes(3);
  int value = 0, out = 4;
  const RequestPtr fromOther = lanes.recv(1, &value, 4, 2, 0);
  lanes.group(0).destroyed(0);
  lanes.lane(0).stop(lanes.group(0).status());
  EXPECT_TRUE(ends(lanes.send(2, &out, 4, 1, 0)));
  EXPECT_TRUE(ends(fromOther));
  EXPECT_TRUE(failsWith(lanes.recv(1, &value, 4, 0, 0)->wait(Deadline::never()), Code::destroyed,
                        {"rank 0 destroyed its end"}));
}

TEST(ErrorsTest, StopEndsOpenRequestsAndLaterOnes) {
  Lanes lanes(2);
  Buffer out(1 << 20);
  int value = 0;
  std::vector<RequestPtr> open{lanes.recv(0, &value, 4, 1, 0), lanes.send(0, out.data(), out.bytes(), 1, 0)};
  std::vector<std::thread> waiting;
  for (const RequestPtr& request : open) {
    waiting.emplace_back(
        [&request] { EXPECT_TRUE(failsWith(request->wait(Deadline::never()), Code::destroyed, {"the end"})); });
  }
  lanes.lane(0).stop(Error(Code::destroyed, "the end"));
  for (std::thread& thread : waiting) thread.join();
  EXPECT_TRUE(failsWith(lanes.send(0, &value, 4, 1, 0)->wait(Deadline::never()), Code::destroyed, {"the end"}));
  lanes.lane(0).stop(Error(Code::destroyed, "again"));
  lanes.take(0).reset();
  EXPECT_TRUE(open[0]->done());
}

TEST(ErrorsTest, PinsEndWithTheMessages) {
  Lanes lanes(2);
  std::size_t first = 0;
  {
    Buffer out(lanes, 3 << 20);
    first = static_cast<std::size_t>(reinterpret_cast<std::byte*>(out.data()) - lanes.heap().base()) / kGranule;
    const RequestPtr send = lanes.send(0, out.data(), out.bytes(), 1, 0);
    EXPECT_FALSE(send->done());
  }
  // Released while the message is open: not handed out again.
  const auto other = lanes.heap().reserve(3 << 20, Backing::sparse);
  ASSERT_TRUE(other);
  EXPECT_NE(*other / kGranule, first);
  lanes.lane(0).stop(Error(Code::destroyed, "the end"));
  const auto same = lanes.heap().reserve(3 << 20, Backing::sparse);
  ASSERT_TRUE(same);
  EXPECT_EQ(*same / kGranule, first);
  lanes.heap().release(*other);
  lanes.heap().release(*same);
}

}  // namespace
}  // namespace symccl::test
