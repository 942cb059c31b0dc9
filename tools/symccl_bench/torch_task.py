"""One row of a collective through torch.distributed: its buffers, the call, and the data that must come out."""

import torch
import torch.distributed as dist

PERIOD = 4093  # elements after which the data repeats: a prime

INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
REDUCTIONS = {
    "sum": dist.ReduceOp.SUM,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "average": dist.ReduceOp.AVG,
    "bitAnd": dist.ReduceOp.BAND,
    "bitOr": dist.ReduceOp.BOR,
    "bitXor": dist.ReduceOp.BXOR,
}
REDUCES = ("all_reduce", "reduce", "reduce_scatter", "reduce_scatter_v")
SENDS_ALL = ("reduce_scatter", "all_to_all", "scatter", "reduce_scatter_v", "all_to_all_v", "scatter_v")
RECEIVES_ALL = ("all_gather", "all_to_all", "gather", "all_gather_v", "all_to_all_v", "gather_v")


class Task:
    """What Task in task.hpp is, for rank `rank` of `size`; `allocate` makes a tensor on `device`."""

    def __init__(self, op, dtype, reduction, root, count, in_place, rank, size, device, allocate):
        self.op, self.reduction, self.root, self.count = op, reduction, root, count
        self.rank, self.size = rank, size
        self.dtype = getattr(torch, dtype)
        if in_place and op not in ("all_reduce", "reduce"):
            raise NotImplementedError("torch.distributed has no such operation in place")
        ranks = range(size)
        self.sends = [self.block(rank, other) for other in ranks]
        self.receives = [self.block(other, rank) for other in ranks]
        self.group = None
        empty = op in ("barrier", "communicator")
        sent = sum(self.sends) if op in SENDS_ALL else self.sends[0]
        received = sum(self.receives) if op in RECEIVES_ALL else self.receives[0]
        self.recv = allocate(0 if empty else received, self.dtype)
        self.send = self.recv if in_place or op == "broadcast" else allocate(0 if empty else sent, self.dtype)
        self.inputs = [self.table(source).to(device) for source in ranks]
        self.result = self.reduced() if op in REDUCES else None

    def block(self, source, destination):
        """Elements that `source` has for `destination`; see Task::blockElements()."""
        place = {"all_gather_v": source, "gather_v": source, "reduce_scatter_v": destination, "scatter_v": destination}
        if self.op == "all_to_all_v":
            place["all_to_all_v"] = (source + destination) % self.size
        return 2 * self.count * (place[self.op] + 1) // (self.size + 1) if self.op in place else self.count

    def table(self, source):
        place = torch.arange(2 * PERIOD, dtype=torch.int64) % PERIOD
        mixed = (place * 2654435761 + source * 40503 + (place * place) % 8191 * 97) >> 3
        if self.op not in REDUCES or self.reduction not in ("sum", "average", "product"):
            values = mixed % 128
        elif self.reduction == "product":
            values = 1 + mixed % 2 if source < 6 else torch.ones_like(place)
        else:
            values = mixed % max(2, 121 // self.size)
        return values

    def reduced(self):
        result = self.inputs[0].clone()
        for other in self.inputs[1:]:
            if self.reduction == "product":
                result *= other
            elif self.reduction == "min":
                result = torch.minimum(result, other)
            elif self.reduction == "max":
                result = torch.maximum(result, other)
            elif self.reduction.startswith("bit"):
                result = {"bitAnd": result & other, "bitOr": result | other, "bitXor": result ^ other}[self.reduction]
            else:
                result = result + other
        if self.reduction != "average":
            return result
        return result // self.size if str(self.dtype)[6:] in INTEGERS else (result.float() / self.size)

    def sequence(self, table, start, count, iteration):
        """`count` elements of a table's sequence, as one row of whole periods and a rest."""
        begin = (start + iteration * 97) % PERIOD
        period = table[begin : begin + PERIOD].to(self.dtype)
        return period, count // PERIOD, count % PERIOD

    def write(self, iteration):
        if self.op in ("broadcast", "scatter", "scatter_v") and self.root != self.rank:
            return
        period, whole, rest = self.sequence(self.inputs[self.rank], 0, self.send.numel(), iteration)
        self.send[: whole * PERIOD].view(whole, PERIOD).copy_(period.expand(whole, PERIOD))
        self.send[whole * PERIOD :].copy_(period[:rest])

    def wrong(self, iteration):
        found = 0
        for at, count, table, start in self.outputs():
            period, whole, rest = self.sequence(table, start, count, iteration)
            part = self.recv[at : at + count]
            found += int((part[: whole * PERIOD].view(whole, PERIOD) != period).sum())
            found += int((part[whole * PERIOD :] != period[:rest]).sum())
        return found

    def outputs(self):
        """Pieces of the output: where, how long, the table that it must equal and from which element on."""
        to_root = self.op in ("reduce", "gather", "gather_v") and self.root != self.rank
        if to_root or self.op in ("barrier", "communicator"):
            return []
        if self.op in RECEIVES_ALL:
            scatters = self.op in SENDS_ALL
            return [
                (sum(self.receives[:source]), self.receives[source], self.inputs[source], self.start(source, scatters))
                for source in range(self.size)
            ]
        if self.op in ("broadcast", "scatter", "scatter_v"):
            table, source = self.inputs[self.root], self.root
        elif self.op == "sendrecv":
            table, source = self.inputs[(self.rank - 1) % self.size], 0
        else:
            table, source = self.result, 0
        return [(0, self.receives[0], table, self.start(source, self.op in SENDS_ALL))]

    def start(self, source, scatters):
        """Where this rank's block begins in what `source` sends."""
        return sum(self.block(source, rank) for rank in range(self.rank)) if scatters else 0

    def call(self, wait=True):
        """What is timed; without `wait` it returns a Work. torch reduces in place, so out of place has a copy in it."""
        how = {} if wait else {"async_op": True}
        op, at_root = REDUCTIONS[self.reduction], self.root == self.rank
        if self.op in ("all_reduce", "reduce"):
            if self.send is not self.recv:
                self.recv.copy_(self.send)
            if self.op == "all_reduce":
                return dist.all_reduce(self.recv, op, **how)
            return dist.reduce(self.recv, self.root, op, **how)
        if self.op == "reduce_scatter":
            return dist.reduce_scatter_tensor(self.recv, self.send, op, **how)
        if self.op == "reduce_scatter_v":
            return dist.reduce_scatter(self.recv, list(self.send.split(self.sends)), op, **how)
        if self.op == "all_gather":
            return dist.all_gather_into_tensor(self.recv, self.send, **how)
        if self.op == "all_gather_v":
            return dist.all_gather(list(self.recv.split(self.receives)), self.send, **how)
        if self.op == "all_to_all":
            return dist.all_to_all_single(self.recv, self.send, **how)
        if self.op == "all_to_all_v":
            return dist.all_to_all_single(self.recv, self.send, self.receives, self.sends, **how)
        if self.op == "broadcast":
            return dist.broadcast(self.recv, self.root, **how)
        if self.op in ("gather", "gather_v"):
            return dist.gather(self.send, list(self.recv.split(self.receives)) if at_root else None, self.root, **how)
        if self.op in ("scatter", "scatter_v"):
            return dist.scatter(self.recv, list(self.send.split(self.sends)) if at_root else None, self.root, **how)
        if self.op == "barrier":
            return dist.barrier(**how)
        if not wait:
            raise NotImplementedError(f"{self.op} has no asynchronous form here")
        if self.op == "communicator":
            self.group = dist.new_group()
            return None
        exchange = [
            dist.P2POp(dist.isend, self.send, (self.rank + 1) % self.size),
            dist.P2POp(dist.irecv, self.recv, (self.rank - 1) % self.size),
        ]
        for work in dist.batch_isend_irecv(exchange):
            work.wait()
        return None

    def settle(self):
        """What follows a call and is not timed."""
        if self.group is not None:
            dist.destroy_process_group(self.group)
            self.group = None
