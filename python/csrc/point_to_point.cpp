// Send, receive, and batches of anything under one Work.
#include <ATen/record_function.h>
#include <c10/util/Exception.h>

#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include "arguments.hpp"
#include "backend.hpp"
#include "errors.hpp"
#include "tags.hpp"

namespace symccl::pytorch {

using Works = ProcessGroupSymCCL::Works;

namespace {

void checkTag(int tag, const char* call) {
  TORCH_CHECK_VALUE(tag >= 0 && tag <= kLastUserTag, "symccl: ", call, ": tag ", tag, " is outside 0..", kLastUserTag);
}

}  // namespace

Works ProcessGroupSymCCL::send(Tensors& tensors, int peer, int tag) {
  Call call("symccl:send", c10d::OpType::SEND, c10d::kUnsetTimeout, true, true);
  const at::Tensor& tensor = onlyOne(tensors, call.name());
  checkTensor(tensor, call.name());
  checkRoot(peer, size_, call.name());
  checkTag(tag, call.name());
  if (at::hasCallbacks()) call.inputs = tensors;
  void* data = const_cast<void*>(call.buffers.read(tensor));
  return issueMessage(call, {Message::Way::send, data, tensor.nbytes(), peer, tag, false});
}

Works ProcessGroupSymCCL::recv(Tensors& tensors, int peer, int tag) {
  Call call("symccl:recv", c10d::OpType::RECV, c10d::kUnsetTimeout, true, true);
  checkOutput(onlyOne(tensors, call.name()), call.name());
  checkRoot(peer, size_, call.name());
  checkTag(tag, call.name());
  return issueRecv(call, tensors, peer, tag);
}

Works ProcessGroupSymCCL::recvAnysource(Tensors& tensors, int tag) {
  Call call("symccl:recvAnySource", c10d::OpType::RECVANYSOURCE, c10d::kUnsetTimeout, true, true);
  checkOutput(onlyOne(tensors, call.name()), call.name());
  checkTag(tag, call.name());
  return issueRecv(call, tensors, kAnySource, tag);
}

// c10d has no way to tell how much came, so a message must fill the tensor.
Works ProcessGroupSymCCL::issueRecv(Call& call, const Tensors& tensors, int peer, int tag) {
  if (at::hasCallbacks()) call.inputs = tensors;
  call.outputs = tensors;
  void* data = call.buffers.write(tensors.front());
  return issueMessage(call, {Message::Way::recv, data, tensors.front().nbytes(), peer, tag, true});
}

Works ProcessGroupSymCCL::issueMessage(Call& call, const Message& message) {
  if (batching()) {
    batch_->messages.push_back(message);
    return addToBatch(call);
  }
  const std::uint64_t sequence = sequence_;
  const auto go = [&]() -> Works {
    const auto communicator = this->communicator();
    auto work = makeWork(call, sequence);
    std::vector<Request> requests = communicator->start({&message, 1});
    throwIfRefused(requests.front());
    work->setOutputs(std::move(call.outputs));
    work->start(communicator, std::move(requests), std::move(call.buffers), timeoutOf(call.timeout));
    started(*work);
    return work;
  };
  if (!at::hasCallbacks()) return go();
  const at::Tensor& tensor = call.inputs.front();
  RECORD_PARAM_COMMS_DATA(std::make_tuple(static_cast<std::int64_t>(sequence), true),
                          std::make_tuple(pg_uid_, pg_desc_), call.inputs, call.outputs, rank_, call.name(),
                          tensor.numel(), tensor.numel(), tensor.scalar_type(), std::vector<std::int64_t>{},
                          std::vector<std::int64_t>{}, -1, -1, size_);
  return go();
}

// A batch that an exception left open is dropped: nothing of it was started.
void ProcessGroupSymCCL::startCoalescing() {
  const auto nobody = std::thread::id();
  auto owner = batchOwner_.load();
  TORCH_CHECK_WITH(DistBackendError, owner == nobody || owner == std::this_thread::get_id(),
                   "symccl: another thread has opened a batch on process group '", options_->group_name, "'");
  batch_ = std::make_unique<Batch>();
  batch_->work = makeWork(batch_->call, sequence_);
  batchOwner_ = std::this_thread::get_id();
}

// The results of a blocking call inside a batch are there when the batch has ended, so its own Work has nothing to wait
// for.
Works ProcessGroupSymCCL::addToBatch(Call& call) {
  Call& all = batch_->call;
  for (Step& step : call.steps) all.steps.push_back(std::move(step));
  all.buffers.absorb(std::move(call.buffers));
  all.outputs.insert(all.outputs.end(), call.outputs.begin(), call.outputs.end());
  if (call.async) return batch_->work;
  auto work = c10::make_intrusive<OperationWork>(rank_, call, sequence_);
  work->setOutputs(std::move(call.outputs));
  work->endInCall();
  return work;
}

Works ProcessGroupSymCCL::endCoalescing() {
  TORCH_CHECK_WITH(DistBackendError, batching(), "symccl: this thread has opened no batch on process group '",
                   options_->group_name, "'");
  const std::unique_ptr<Batch> batch = std::move(batch_);
  batchOwner_ = std::thread::id();
  const auto communicator = this->communicator();
  Call& call = batch->call;
  std::vector<Request> requests;
  if (!batch->messages.empty()) requests = communicator->start(batch->messages);
  for (const Request& request : requests) throwIfRefused(request);
  for (const Step& step : call.steps) {
    requests.push_back(communicator->start(step.operation));
    throwIfRefused(requests.back());
    ++sequence_;
  }
  batch->work->setOutputs(std::move(call.outputs));
  batch->work->start(communicator, std::move(requests), std::move(call.buffers), timeoutOf(c10d::kUnsetTimeout));
  started(*batch->work);
  return batch->work;
}

}  // namespace symccl::pytorch
