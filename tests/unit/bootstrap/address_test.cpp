#include "bootstrap/address.hpp"

#include <gtest/gtest.h>

namespace symccl {
namespace {

TEST(Address, ReadsWhatItWrites) {
  for (const char* text : {"host:1", "10.0.0.7:65535", "[::1]:29500", "unix:@symccl-0a1b", "unix:@with:colon"}) {
    Result<Address> address = Address::parse(text);
    ASSERT_TRUE(address) << text;
    EXPECT_EQ(address->text(), text);
  }
}

TEST(Address, Parts) {
  Result<Address> six = Address::parse("[fe80::2]:80");
  ASSERT_TRUE(six);
  EXPECT_EQ(six->host, "fe80::2");
  EXPECT_EQ(six->port, 80);
  EXPECT_FALSE(six->isUnix());
  Result<Address> local = Address::parse("unix:@a");
  ASSERT_TRUE(local);
  EXPECT_EQ(local->name, "a");
  EXPECT_TRUE(local->isUnix());
}

TEST(Address, RefusesTheRestAndSaysWhatIsAccepted) {
  const std::string tooLong = "unix:@" + std::string(108, 'n');
  for (const std::string& text :
       {std::string(), std::string("host"), std::string("host:"), std::string(":80"), std::string("host:0"),
        std::string("host:65536"), std::string("host:8x"), std::string("host: 8"), std::string("host:-1"),
        std::string("::1:80"), std::string("[]:80"), std::string("unix:"), std::string("unix:@"),
        std::string("unix:/tmp/x"), tooLong}) {
    Result<Address> address = Address::parse(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().code(), Code::invalid);
    EXPECT_NE(address.error().message().find('\'' + text + '\''), std::string::npos);
    EXPECT_NE(address.error().message().find("unix:@name"), std::string::npos);
  }
}

TEST(Address, ListeningSaysWhatIsTaken) {
  Result<Listener> first = listenAt(Address{"127.0.0.1", 0, {}});
  ASSERT_TRUE(first) << first.error().message();
  EXPECT_TRUE(first->loopback);
  EXPECT_GT(first->port, 0);
  Result<Listener> second = listenAt(Address{"127.0.0.1", first->port, {}});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code(), Code::system);
  EXPECT_NE(second.error().message().find(std::to_string(first->port)), std::string::npos);
  EXPECT_NE(second.error().message().find("EADDRINUSE"), std::string::npos);
}

TEST(Address, NobodyListens) {
  Result<ProcessDescriptor> none =
      connectTo(Address::abstract("symccl-test-nobody"), Deadline::in(std::chrono::seconds(5)), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::dead);
  EXPECT_NE(none.error().message().find("ECONNREFUSED"), std::string::npos);
}

TEST(Address, AnUnknownHostIsTheCallersMistake) {
  Result<ProcessDescriptor> none =
      connectTo(Address{"no.such.host.invalid", 80, {}}, Deadline::in(std::chrono::seconds(20)), {});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code(), Code::invalid);
  EXPECT_NE(none.error().message().find("no.such.host.invalid"), std::string::npos);
}

}  // namespace
}  // namespace symccl
