# make setup | demo | test | models | bench-peers | bench | profile | format | clean; see CONTRIBUTING.md.
.PHONY: setup demo test models bench-peers bench profile format clean
.DEFAULT_GOAL := setup

setup:            ## what is missing is installed, then everything is built
	@scripts/setup.sh

demo: setup       ## the main job: the symmetric pool on 8 ranks, the same on the emulated npu, then training on 2
	.venv/bin/torchrun --standalone --nproc_per_node=8 examples/symmetric_pool.py
	.venv/bin/torchrun --standalone --nproc_per_node=8 -m symccl.npu examples/npu_pool.py
	.venv/bin/python examples/train_digits.py

test:             ## every check and test; SUITES="format units" runs only those
	@scripts/setup.sh --werror
	@.venv/bin/python scripts/run_tests.py $(SUITES)

models:           ## all configurations of the protocol's models; some minutes, 2 GiB of memory
	.venv/bin/python tests/model/run_models.py

bench-peers: setup  ## installs Open MPI, MPICH and oneCCL and builds their workers, for symccl-bench --peers
	@scripts/bench_peers.sh

bench: bench-peers  ## the standing comparison, ten minutes of a quiet machine; writes bench/results and docs/performance.md
	@.venv/bin/python scripts/bench.py

profile: setup    ## where the time of an operation goes, by perf; writes docs/profile.md
	@.venv/bin/python scripts/profile.py

format: setup     ## formats all code in place
	@scripts/format.sh

clean:            ## removes what was built; .venv stays
	rm -rf build build-cpp build-tsan build-asan .pytest_cache .ruff_cache .hypothesis
