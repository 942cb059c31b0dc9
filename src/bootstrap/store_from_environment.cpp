#include <cstdlib>

#include "base/checks.hpp"
#include "base/environment.hpp"
#include "bootstrap/job.hpp"
#include "bootstrap/launch.hpp"
#include "symccl/store.hpp"

namespace symccl {
namespace {

/// A store over TCP knows one job's ranks only, so that one that a job before left behind is not joined by mistake.
std::string tokenOf(const std::string& token, const Launch& launch, const Lookup& lookup) {
  const std::string job = jobVariables(launch, lookup);
  return job.empty() ? token : token + '\n' + job;
}

bool isLoopbackName(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

Result<StorePlan> planOverTcp(Address address, const Launch& launch, const std::string& token, const Lookup& lookup) {
  if (token.empty() && !isLoopbackName(address.host)) {
    return invalid("a store at ", address.text(),
                   " can be reached from other hosts and needs a token: set SYMCCL_TOKEN to the ",
                   "same secret on every rank");
  }
  return StorePlan{false, std::move(address), tokenOf(token, launch, lookup)};
}

}  // namespace

Result<StorePlan> planStore(const Launch& launch, const std::string& root, const std::string& token,
                            const Lookup& lookup) {
  if (launch.size == 1) return StorePlan{true, {}, {}};
  if (!root.empty()) {
    Result<Address> address = Address::parse(root);
    if (!address) return address.error().in("SYMCCL_ROOT");
    if (address->isUnix()) return StorePlan{false, std::move(*address), token};
    return planOverTcp(std::move(*address), launch, token, lookup);
  }
  if (launch.localSize == launch.size) return StorePlan{false, Address::abstract(jobSocketName(launch, lookup)), token};

  const auto valueOf = [&](const char* name) { return std::string(lookup(name) ? lookup(name) : ""); };
  const std::string host = valueOf("MASTER_ADDR"), port = valueOf("MASTER_PORT");
  // torchrun's agent listens at MASTER_PORT itself and speaks another protocol there.
  const bool taken = valueOf("TORCHELASTIC_USE_AGENT_STORE") == "True";
  if (launch.launcher == "torchrun" && !host.empty() && !port.empty() && !taken) {
    Result<Address> address =
        Address::parse(host.find(':') == std::string::npos ? host + ':' + port : '[' + host + "]:" + port);
    if (!address) return address.error().in("MASTER_ADDR and MASTER_PORT");
    return planOverTcp(std::move(*address), launch, token, lookup);
  }
  return invalid(
      "the ", launch.size, " ranks that ", launch.launcher, " started are not known to be on one host, and ",
      taken ? "torchrun itself listens at MASTER_PORT" : "no address is given",
      ": set SYMCCL_ROOT to host:port of a free port on rank 0's host, and SYMCCL_TOKEN to a secret, on every rank");
}

Result<std::shared_ptr<Store>> storeFromEnvironment(const Launch& launch, std::chrono::milliseconds wait) {
  if (Status status = environmentStatus(); !status) return status.error();
  const Lookup lookup = [](const char* name) { return std::getenv(name); };
  Result<StorePlan> plan = planStore(launch, environment().root, environment().token, lookup);
  if (!plan) return plan.error();
  if (plan->inProcess) return makeLocalStore();

  const Address& address = plan->address;
  const std::string host = address.isUnix() ? address.text() : address.host;
  Result<std::unique_ptr<TcpStore>> store = launch.rank == 0 ? TcpStore::serve(host, address.port, plan->token)
                                                             : TcpStore::connect(host, address.port, plan->token, wait);
  if (!store) return store.error().in(text("rank ", launch.rank, " of ", launch.size, " (", launch.launcher, ")"));
  return std::shared_ptr<Store>(std::move(*store));
}

}  // namespace symccl
