# FUZZTIME, LONG (how long each test of long runs), BENCH, PEERS (flags of test/peers) and SLUICE_TEST_REQUIRE can be set in the environment.
.PHONY: run build quick test race long lint fuzz bench bench-peers setup mutants dist
FUZZTIME ?= 10s
LONG ?= 1h
BENCH ?= .

run: ; go run ./cmd/sluice serve
build: ; go build -o sluice ./cmd/sluice
setup: ; test/testenv/setup.sh
quick: ; go test -short -count=1 -parallel=8 -timeout=10m $$(go list ./... | grep -v '/e2e/')
test: setup ; go test -vet=off -count=1 -timeout=15m ./...
race: setup ; go test -race -count=1 -timeout=60m ./...
long: setup ; SLUICE_TEST_LONG=$(LONG) go test -tags=long -count=1 -p=4 -v -timeout=24h -run='Long$$' $$(git ls-files '*_long_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
lint: ; .ci/lint
fuzz: ; .ci/fuzz $(FUZZTIME)
mutants: setup ; .ci/mutants
bench: setup ; go test -run='^$$' -bench='$(BENCH)' -benchmem -timeout=30m ./...
bench-peers: setup ; test/peers/setup.sh && go run ./test/peers -write $(PEERS)
dist: ; .ci/dist
