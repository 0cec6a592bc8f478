# Go and make are all that build, demo and test need. 'make' alone lists the targets.

GO        ?= go
TESTFLAGS ?=
FUZZTIME  ?= 30s
PART      ?=
CELLS     ?=

# Programs of the tests with real peers, and the Debian packages that have them (see testbed/peers).
PEERS    = squid tinyproxy danted microsocks nghttpx nginx curl
PACKAGES = squid tinyproxy-bin dante-server microsocks nghttp2-proxy nginx curl

LINT_VERSION = v2.15.0
LINT         = .cache/bin/golangci-lint-$(LINT_VERSION)
TARGETS      = linux/386 linux/arm64 darwin/arm64 windows/amd64 freebsd/amd64

# Sets $$missing to the programs that are not there. Debian's daemons are not in a normal user's PATH.
FIND_MISSING = PATH="$$PATH:/usr/sbin:/usr/local/sbin:/sbin"; missing=; \
	for p in $(PEERS); do command -v $$p >/dev/null || missing="$$missing $$p"; done

.PHONY: help build demo test peers lint cross cases undo bodies bench bench-full fuzz clean

help:
	@echo 'make build   bin/caddy: Caddy with the tunnel transport'
	@echo 'make demo    build it and serve the examples at http://localhost:8080/'
	@echo 'make test    go vet and all tests, with -race'
	@echo 'make peers   install the real proxies that the tests use (Debian, as root)'
	@echo 'make lint    gofmt, go mod tidy and golangci-lint'
	@echo 'make cross   go vet for other systems'
	@echo 'make cases   the tests of docs/cases.md, one by one'
	@echo 'make undo    undo the fixes of those cases in turn, and see their tests fail'
	@echo 'make bodies  bodies of 256 MiB, and the memory they take'
	@echo 'make bench   what a request costs, in some minutes; PART=ladder for one part (docs/costs.md)'
	@echo 'make bench-full  all of it, in hours'
	@echo 'make fuzz    every fuzz target for FUZZTIME (default 30s)'
	@echo 'make clean   remove bin and .cache'

build:
	$(GO) build -o bin/caddy ./cmd/caddy

demo: build
	bin/caddy tunnel demo

# The lines of 'go test' come again at the end, behind what was not tried.
test:
	$(GO) vet ./...
	@mkdir -p .cache; rm -f .cache/failed; notes=; status=0; race=-race; $(FIND_MISSING); \
	if [ "$$($(GO) env CGO_ENABLED)" != 1 ]; then \
		race=; notes="without -race: there is no C compiler, or CGO_ENABLED is 0"; fi; \
	echo "$(GO) test $$race -timeout 8m $(TESTFLAGS) ./..."; \
	{ $(GO) test $$race -timeout 8m $(TESTFLAGS) ./... 2>&1 || touch .cache/failed; } | tee .cache/test.log; \
	if [ -f .cache/failed ]; then rm .cache/failed; status=1; fi; \
	echo; \
	if [ -n "$$missing" ]; then \
		notes="$${notes:+$$notes; }real peers not tried:$$missing ('make peers' installs them)"; fi; \
	if [ -n "$$notes" ]; then \
		echo "$$notes"; \
		if [ "$$CI" = true ]; then echo 'with CI=true that is a failure'; status=1; fi; fi; \
	grep -E '^(ok|FAIL|---|panic:|\?)' .cache/test.log; \
	exit $$status

# The services must not start by themselves: the tests start their own.
peers:
	@$(FIND_MISSING); \
	if [ -z "$$missing" ]; then echo 'real peers: all are installed'; exit 0; fi; \
	if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
		echo "real peers not installed:$$missing"; \
		echo 'as root on Debian: apt-get install $(PACKAGES)'; exit 1; fi; \
	policy=/usr/sbin/policy-rc.d; saved=; \
	if [ -e $$policy ] || [ -L $$policy ]; then saved=$$policy.before-peers; mv $$policy $$saved; fi; \
	trap 'rm -f $$policy; [ -z "$$saved" ] || mv $$saved $$policy' EXIT; trap 'exit 1' HUP INT TERM; \
	printf '#!/bin/sh\nexit 101\n' >$$policy; chmod 755 $$policy; \
	export DEBIAN_FRONTEND=noninteractive; \
	apt-get update -qq && apt-get install -qq -y --no-upgrade -o DPkg::Lock::Timeout=300 --no-install-recommends $(PACKAGES) || exit 1; \
	$(FIND_MISSING); [ -z "$$missing" ] || { echo "still missing:$$missing"; exit 1; }

lint: $(LINT)
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) mod tidy -diff
	$(LINT) run ./...

$(LINT):
	GOBIN="$(CURDIR)/.cache/bin" $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT_VERSION)
	@mv .cache/bin/golangci-lint $@

cross:
	@for t in $(TARGETS); do \
		echo "go vet for $$t"; \
		CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet ./... || exit 1; \
	done

# The exit status and the last line say how many of the cases pass.
cases:
	@$(GO) run ./cmd/cases

undo:
	@$(GO) run ./cmd/cases -undo

bodies:
	TUNNEL_BODIES=1 $(GO) test -count=1 -timeout 30m -v -run '^TestBodies256MiB$$' ./caddymodule/...

# The results name the commit, which not every environment has the go command stamp by itself.
RUN_BENCH = $(GO) build -buildvcs=auto -o bin/bench ./cmd/bench && bin/bench -part '$(PART)' -cells '$(CELLS)'

bench: build
	$(RUN_BENCH)

bench-full: build
	$(RUN_BENCH) -full

fuzz:
	@grep -r --include='*_test.go' '^func Fuzz' . | sed 's|/[^/]*:func \(Fuzz[A-Za-z0-9_]*\).*| \1|' | \
	while read -r dir name; do \
		echo "$$name in $$dir"; \
		$(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) "$$dir" </dev/null || exit 1; \
	done

clean:
	rm -rf bin .cache
