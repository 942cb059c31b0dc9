// What users may ask for, and what plan() makes of it.

#include <algorithm>

#include "collectives/catalog.hpp"
#include "collectives/plan.hpp"
#include "collectives/probe.hpp"
#include "collectives/spanning_tree.hpp"
#include "unit/thread_ranks.hpp"

namespace symccl::test {
namespace {

constexpr Kind kUniform[] = {Kind::broadcast,     Kind::allReduce, Kind::reduce, Kind::allGather,
                             Kind::reduceScatter, Kind::allToAll,  Kind::gather, Kind::scatter};

Situation registered(Kind kind, std::uint64_t bytes, int size = 4) {
  return {.kind = kind, .size = size, .cpus = size, .bytes = bytes, .inputs = true, .outputs = true};
}
std::string chosen(const Situation& situation, const PlanRules& rules = {}) { return choose(situation, rules).name; }
PlanRules asking(const char* text) {
  PlanRules rules;
  rules.choice = *Choice::parse(text);
  return rules;
}

TEST(Choice, Grammar) {
  const Choice all = *Choice::parse("level0:ring;level1:NHR");
  for (const Kind kind : kUniform) EXPECT_EQ(all.at(kind), Named::ring) << nameOf(kind);
  const Choice some = *Choice::parse("allreduce=level0:H-D_R;level1:ring/allgather=level1:NB/alltoall=pairwise");
  EXPECT_EQ(some.at(Kind::allReduce), Named::halvingDoubling);
  EXPECT_EQ(some.at(Kind::allGather), Named::automatic);
  EXPECT_EQ(some.at(Kind::allToAll), Named::pairwise);
  EXPECT_EQ(some.at(Kind::allToAllV), Named::pairwise);
  EXPECT_EQ(some.at(Kind::broadcast), Named::automatic);
  EXPECT_EQ(Choice::parse("two-shot")->at(Kind::reduce), Named::twoShot);
  EXPECT_EQ(Choice::parse("")->at(Kind::reduce), Named::automatic);
  for (const char* known : {"NA", "null", "fullmesh", "pipeline", "NHR", "NHR_V1", "NB", "AHC", "AHC_BROKE"})
    EXPECT_EQ(Choice::parse(std::string("level0:") + known)->at(Kind::allReduce), Named::automatic) << known;
}

TEST(Choice, RefusesAndSaysWhatIsAccepted) {
  const std::pair<const char*, const char*> refused[] = {
      {"level0:circle", "double-tree"},
      {"level0:Ring", "ring"},
      {"level0:", "ring"},
      {"level0", "ring"},
      {"level4:ring", "level3"},
      {"level:ring", "level3"},
      {"layer0:ring", "level3"},
      {";", "ring"},
      {"level0:ring;", "ring"},
      {"level0:ring;level0:NA", "twice"},
      {"ring;level0:NA", "twice"},
      {"ring/tree", "ring"},
      {"allreduce=ring/", "accepted operations"},
      {"allreduce=ring/tree", "accepted operations"},
      {"all_reduce=ring", "allreduce"},
      {"allreduce=ring/allreduce=tree", "twice"},
      {"allreduce=", "ring"},
      {"=ring", "allreduce"},
  };
  for (const auto& [text, part] : refused) {
    const Result<Choice> choice = Choice::parse(text);
    ASSERT_FALSE(choice) << text;
    EXPECT_EQ(choice.error().code(), Code::invalid);
    EXPECT_NE(choice.error().message().find(part), std::string::npos) << choice.error().message();
  }
}

TEST(Plan, OnlyRankOrderUnlessAsked) {
  for (const Kind kind : kUniform) {
    for (const int size : {2, 3, 8, 64}) {
      for (std::uint64_t bytes = 4096; bytes <= 1ull << 34; bytes *= 3) {
        for (const bool inputs : {false, true}) {
          for (const bool outputs : {false, true}) {
            Situation situation = registered(kind, bytes, size);
            situation.inputs = inputs;
            situation.outputs = outputs;
            const Algorithm& algorithm = choose(situation, {});
            EXPECT_TRUE(algorithm.rankOrder) << algorithm.name;
            EXPECT_TRUE(algorithm.runs(situation)) << algorithm.name;
            EXPECT_EQ(algorithm.path == Path::zeroCopy || algorithm.path == Path::staged, true) << algorithm.name;
          }
        }
      }
    }
  }
}

// No candidate is cheaper than the chosen one; costs grow with bytes.
TEST(Plan, TakesTheCheapest) {
  for (const Kind kind : kUniform) {
    std::uint64_t before = 0;
    for (std::uint64_t bytes = 4096; bytes <= 1ull << 32; bytes *= 2) {
      const Situation situation = registered(kind, bytes);
      const Algorithm& best = choose(situation, {});
      std::uint64_t least = 0;
      for (const Estimate& each : estimates(situation, {})) {
        if (each.algorithm == &best) least = each.picoseconds;
      }
      for (const Estimate& each : estimates(situation, {})) {
        if (each.possible && each.algorithm->rankOrder) {
          EXPECT_GE(each.picoseconds, least) << each.algorithm->name;
        }
      }
      EXPECT_GT(least, before) << nameOf(kind) << ' ' << bytes;
      before = least;
    }
  }
}

TEST(Plan, FollowsTheMachine) {
  PlanRules rules;
  const Situation two{
      .kind = Kind::allReduce, .size = 2, .cpus = 2, .bytes = 64 << 10, .inputs = true, .outputs = true};
  for (auto& rate : rules.costs.rates) rate = {20'000, 500'000, 30'000, 10'000, 20'000};
  EXPECT_EQ(chosen(two, rules), "one-shot");  // storing to a peer is dear
  for (auto& rate : rules.costs.rates) rate = {20'000, 20'000, 300'000, 10'000, 300'000};
  EXPECT_EQ(chosen(two, rules), "two-shot");  // reading from a peer is dear
  const Situation gather = registered(Kind::allGather, 1 << 20);
  EXPECT_EQ(chosen(gather, rules), "push");
  for (auto& rate : rules.costs.rates) rate = {20'000, 300'000, 20'000, 10'000, 20'000};
  EXPECT_EQ(chosen(gather, rules), "pull");
}

TEST(Plan, WhatIsAskedForWhereItCanBeHad) {
  const Situation reduce = registered(Kind::allReduce, 1 << 20);
  EXPECT_EQ(chosen(reduce, asking("ring")), "ring");
  EXPECT_EQ(chosen(reduce, asking("tree")), "tree");
  EXPECT_EQ(chosen(reduce, asking("staged")), "staged reduce");
  EXPECT_EQ(chosen(reduce, asking("pairwise")), chosen(reduce));  // all-reduce has none
  Situation apart = reduce;
  apart.outputs = false;
  EXPECT_EQ(chosen(apart, asking("two-shot")), chosen(apart));
  EXPECT_EQ(chosen(apart, asking("one-shot")), "one-shot");
  apart.overlap = true;
  EXPECT_NE(chosen(apart, asking("one-shot")), "one-shot");
  Situation tiny = registered(Kind::allReduce, 8);
  tiny.form = Form::inlined;
  tiny.inputs = tiny.outputs = false;
  EXPECT_EQ(chosen(tiny), "inline line");
  EXPECT_EQ(chosen(tiny, asking("eager")), "inline line");
  EXPECT_EQ(chosen(tiny, asking("ring")), "ring");
  tiny.form = Form::eager;
  EXPECT_EQ(chosen(tiny, asking("inline")), "eager one-shot");
  Situation inPlace = registered(Kind::allToAll, 1 << 20);
  inPlace.overlap = true;
  EXPECT_EQ(chosen(inPlace), "staged move");
  EXPECT_EQ(chosen({.kind = Kind::barrier, .size = 4}, asking("ring")), "nothing");
}

TEST(Plan, Thresholds) {
  PlanRules rules;
  rules.treeThreshold = 8192;
  rules.ringThreshold = 1 << 20;
  EXPECT_EQ(chosen(registered(Kind::allReduce, 8192), rules), "tree");
  EXPECT_NE(chosen(registered(Kind::allReduce, 8193), rules), "tree");
  EXPECT_NE(chosen(registered(Kind::allReduce, (1 << 20) - 1), rules), "ring");
  EXPECT_EQ(chosen(registered(Kind::allReduce, 1 << 20), rules), "ring");
  EXPECT_NE(chosen(registered(Kind::allToAll, 1 << 20), rules), "ring");
  rules.choice = *Choice::parse("allreduce=H-D_R");
  EXPECT_EQ(chosen(registered(Kind::allReduce, 1 << 20), rules), "halving-doubling");
  EXPECT_EQ(chosen(registered(Kind::allGather, 1 << 20), rules), "ring");
}

TEST(Probe, MeasuresOnceWithinReason) {
  const CostModel& costs = measuredCosts();
  EXPECT_EQ(&costs, &measuredCosts());
  EXPECT_GE(costs.handoff, 1'000u);            // 1 ns
  EXPECT_LE(costs.handoff, 100'000'000'000u);  // 100 ms
  for (const auto& rate : costs.rates) {
    for (const std::uint64_t each : {rate.copied, rate.pushed, rate.pulled, rate.read, rate.readPeer}) {
      EXPECT_GE(each, 1'000u);  // 1 TB/s
      EXPECT_LE(each, 100'000'000'000u);
    }
  }
}

// Every tree reaches every rank once, parents and children agree, and no rank has children in both of two trees.
TEST(SpanningTrees, AreTrees) {
  for (int size = 2; size <= 40; ++size) {
    for (const int root : {0, size / 2, size - 1}) {
      for (int shape = 0; shape < 4; ++shape) {
        const auto at = [&](int rank) {
          if (shape == 0) return chain(rank, root, size);
          if (shape == 1) return binomialTree(rank, root, size);
          return doubleTree(rank, root, size)[static_cast<std::size_t>(shape - 2)];
        };
        int deepest = 0, children = 0;
        for (int rank = 0; rank < size; ++rank) {
          const Place place = at(rank);
          deepest = std::max(deepest, place.depth);
          children += static_cast<int>(place.children.size());
          EXPECT_EQ(place.parent < 0, rank == root);
          EXPECT_EQ(place.depth == 0, rank == root);
          for (const int child : place.children) {
            EXPECT_EQ(at(child).parent, rank);
            EXPECT_EQ(at(child).depth, place.depth + 1);
          }
        }
        EXPECT_EQ(children, size - 1) << "shape " << shape << ", " << size << " ranks";
        for (int rank = 0; rank < size; ++rank) EXPECT_EQ(at(rank).height, deepest);
        if (shape > 0) {
          EXPECT_LE(1 << (deepest - 1), size) << "shape " << shape << ", " << size << " ranks";
        }
      }
      for (int rank = 0; rank < size; ++rank) {
        const auto both = doubleTree(rank, root, size);
        if (rank != root) {
          EXPECT_TRUE(both[0].children.empty() || both[1].children.empty());
        }
      }
    }
  }
}

TEST(ChoiceOfACommunicator, UnknownAndDifferentAlgorithmsAreErrors) {
  const auto store = makeLocalStore();
  const std::string name = freshName(), other = freshName();
  onThreads(2, [&](int rank) {
    CommunicatorOptions options{name, std::chrono::seconds(30)};
    options.algorithm = "circle";
    const auto unknown = Communicator::create(*store, rank, 2, options);
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code(), Code::invalid);
    EXPECT_NE(unknown.error().message().find("unknown algorithm 'circle'; accepted: NA"), std::string::npos)
        << unknown.error().message();
    options.name = other;
    options.algorithm = rank == 0 ? "ring" : "tree";
    const auto different = Communicator::create(*store, rank, 2, options);
    ASSERT_FALSE(different);
    EXPECT_EQ(different.error().code(), Code::invalid);
    EXPECT_NE(different.error().message().find("algorithm 'ring'"), std::string::npos) << different.error().message();
    EXPECT_NE(different.error().message().find("algorithm 'tree'"), std::string::npos) << different.error().message();
  });
}

TEST(ChoiceOfACommunicator, SplitTakesItsOwnOrTheParents) {
  withRanks(
      3,
      [](Communicator& comm) {
        const auto last = [](Communicator& on) {
          std::vector<int> data(3000, 1);
          EXPECT_OK(on.run(Operation::allReduce(data.data(), data.data(), 3000, DataType::int32, ReduceOp::sum)));
          EXPECT_EQ(data[2999], 3);
          for (const auto& [kind, counters] : on.report().operations) {
            if (kind == "all_reduce") return counters.algorithm;
          }
          return std::string();
        };
        const auto own = comm.split(0, comm.rank(), {freshName() + "own", std::chrono::seconds(30), -1, "double-tree"});
        const auto parents = comm.split(0, comm.rank(), {freshName() + "parents", std::chrono::seconds(30)});
        ASSERT_TRUE(own && parents);
        EXPECT_EQ(last(**own), "double tree");
        EXPECT_EQ(last(**parents), "ring");
        const std::string odd = comm.rank() == 1 ? "tree" : "ring";
        const auto different = comm.split(0, comm.rank(), {freshName() + "odd", std::chrono::seconds(30), -1, odd});
        ASSERT_FALSE(different);
        EXPECT_EQ(different.error().code(), Code::invalid);
      },
      {"", CommunicatorOptions().timeout, -1, "ring"});
}

}  // namespace
}  // namespace symccl::test
