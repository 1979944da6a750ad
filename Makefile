# FUZZTIME, LONG (how long each test of long runs), BENCH, PEERS (flags of internal/peers) and SLUICE_TEST_REQUIRE can be set in the environment.
.PHONY: run build test race long lint fuzz bench bench-peers setup mutants dist
FUZZTIME ?= 10s
LONG ?= 1h
BENCH ?= .

run: ; go run ./cmd/sluice serve
build: ; go build -o sluice ./cmd/sluice
setup: ; internal/testenv/setup.sh
test: setup ; go test -count=1 -timeout=15m ./...
race: setup ; go test -race -count=1 -timeout=60m ./...
long: setup ; go test -tags=long -count=1 -v -timeout=6h -run='AfterKills$$' ./e2e -args -long=$(LONG)
lint: ; .ci/lint
fuzz: ; .ci/fuzz $(FUZZTIME)
mutants: setup ; .ci/mutants
bench: setup ; go test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=30m ./...
bench-peers: setup ; internal/peers/setup.sh && go run ./internal/peers -write $(PEERS)
dist: ; .ci/dist
