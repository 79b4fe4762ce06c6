# What people type. Everything that is not a Go test is a few lines here.
GO         ?= go
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2
KUBECONFORM = github.com/yannh/kubeconform/cmd/kubeconform@v0.8.0
ACTIONLINT = github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
PROTOC_GEN_GO = google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
PROTOC_GEN_GRPC = google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
GORELEASER = github.com/goreleaser/goreleaser/v2@v2.16.0
HUGO = github.com/gohugoio/hugo@v0.165.0
SYFT = github.com/anchore/syft/cmd/syft@v1.50.0
FUZZTIME   ?= 3000x
VERSION    ?=
COMMIT     ?=

# Debian's packages that the tests start or talk through; gcc and libc6-dev are for the race detector.
PACKAGES    = gcc libc6-dev redis-server etcd-server etcd-client postgresql mariadb-server default-jre-headless libzookeeper-java memcached libmemcached-tools iproute2 sasl2-bin libsasl2-modules protobuf-compiler netcat-openbsd curl

.PHONY: build run test static test-clients test-dashboard test-examples test-docs docs-site links test-systemd test-deb release-check test-image test-kubernetes test-page test-fleet test-migration soak soak-pool explore faults chaos chaos-library chaos-sequences mixed test-downgrade bench figures bench-library deps lint cross unit unit-sim unit-bars unit-net unit-epoll fuzz vuln image proto proto-check

# gRPC's request tracing imports html/template, which keeps the linker from leaving out methods that nothing calls: 9 of 30 MB.
build: ## bin/katsubushi, static
	CGO_ENABLED=0 $(GO) build -tags grpcnotrace -trimpath -ldflags '-s -w $(if $(VERSION),-X main.version=$(VERSION)) $(if $(COMMIT),-X main.commit=$(COMMIT))' -o bin/katsubushi ./cmd/katsubushi

run: build ## a daemon on 127.0.0.1:11212, and HTTP on 8081
	./bin/katsubushi -worker-id 1 -bind 127.0.0.1 -http-port 8081

# The seeds of the fuzz targets are among the tests; make fuzz looks for more.
test: deps ## everything that CI runs; while the tests wait for servers, a second processor looks at the source
	@$(MAKE) --no-print-directory -j2 unit static

static: lint proto-check cross vuln # one after another: unit has the other job

deps: ## install what the tests need, if it is missing
	@missing=$$(for p in $(PACKAGES); do case "$$(dpkg-query -Wf '$${Status}' $$p 2>/dev/null)" in *' installed') ;; *) echo $$p;; esac; done); \
	test -z "$$missing" && exit 0; \
	missing=$$(echo $$missing); echo "installing $$missing"; \
	sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	for n in $$(seq 60); do \
	  out=$$($$sudo apt-get update -qq 2>&1) && break; \
	  case "$$out" in *"get lock"*) test $$n -gt 1 || echo "waiting until another apt ends"; sleep 5;; *) echo "$$out"; break;; esac; \
	done; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $$missing >/dev/null || \
	{ echo "The tests need Debian's packages that are missing here."; \
	  echo "As root: apt-get install -y --no-install-recommends $$missing"; exit 1; }
	@command -v promtool >/dev/null || test -x bin/promtool || { echo "fetching promtool"; $(PROMTOOL); } || \
	{ echo "The tests need promtool, of Debian's package prometheus or of prometheus.io: put it into bin/."; exit 1; }

# Debian has promtool in the package prometheus, which starts a server that listens on every address: it is not installed, the tool is taken out.
PROMTOOL = rm -rf bin/_promtool && mkdir -p bin/_promtool && cd bin/_promtool && \
	get="apt-get -o APT::Sandbox::User=root -qq download prometheus"; sudo=; test "$$(id -u)" = 0 || sudo=sudo; \
	{ $$get 2>/dev/null || { $$sudo apt-get update -qq && $$get; }; } && \
	dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xf - ./usr/bin/promtool && mv usr/bin/promtool .. && cd .. && rm -r _promtool

lint:
	@bad=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$bad" || { echo "gofmt would change: $$bad"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags chaos ./test/chaos
	cd bench/client && $(GO) vet ./... && $(GO) test -vet=off ./...
	cd bench/library && $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	$(GO) run $(ACTIONLINT) .github/workflows/*.yml
	@$(GO) run ./test/house

# What protoc 3.21 of Debian's protobuf-compiler makes of the .proto files: its version is in the files.
PROTO = mkdir -p $(1) && GOBIN=$(CURDIR)/bin $(GO) install $(PROTOC_GEN_GO) && GOBIN=$(CURDIR)/bin $(GO) install $(PROTOC_GEN_GRPC) && \
	PATH=$(CURDIR)/bin:$$PATH protoc -I proto --go_out=$(1) --go_opt=paths=source_relative --go-grpc_out=$(1) --go-grpc_opt=paths=source_relative katsubushipb/katsubushi.proto

proto: deps ## generated code of the gRPC interface
	$(call PROTO,proto)

proto-check: deps ## that it is what make proto makes
	@rm -rf bin/_proto && $(call PROTO,bin/_proto) && diff -r -x '*.proto' proto bin/_proto || { echo "run make proto"; exit 1; }

cross: ## the portable parts, for systems that stand for the others
	$(GO) run ./test/portable linux/arm64 darwin/arm64 windows/amd64

# Like go test, and says which package runs. What vet says, lint has said. Nobody debugs the programs, so two fifths of the
# linker's work are left out; there are a hundred. On a machine that is 20 times too busy the longest package takes nine minutes.
TEST = $(GO) run ./test/testrun -vet=off -ldflags=-s -timeout 20m

# Process tests that also run over the engines that are not the fastest: connections come in, are counted, wait, are handed to another process.
EVERY_ENGINE = ^TestProcess(EngineScenes|DescriptorsForSequences)$$

# Tests of one goroutine, or of two that take turns, in which the race detector finds nothing and takes ten times as long, and one that compares a
# hundred passwords. Only these packages have tests of these names, and ./cmd/katsubushi, where unit-net runs them.
ONE_GOROUTINE = ^Test(ErrorAnywhere|FaultAnywhere|FaultAnywhereInTimestamps|LockDeleted|LoginsWaitForAPlace|ManyLives|PowerCutAnywhere|ARunThatKnowsOnlyTheSnowflakesWordRepeatsNoCompanionsID|TranscriptsOfCommands|WhatInitWritesIsAccepted)$$
OF_ONE_GOROUTINE = ./workerid/static ./counter/file ./generator ./internal/front

# A program under the race detector waits for a second before it ends, and the tests start a hundred of those. Many tests wait for servers,
# so four packages keep two processors busy. The longest ones come first, so that none of them is left over at the end.
LONGEST = ./cmd/katsubushi ./internal/server/engines . ./workerid/zookeeper ./workerid/etcd ./counter/etcd ./internal/daemon ./workerid/redis ./counter/sql ./test/docs ./test/clients ./client

# What was skipped although everything should have been there is said at the end.
export TESTRUN_SKIPPED = $(CURDIR)/bin/skipped

unit: ## every test under the race detector; without it the simulations, the bars for memory and allocations, and the daemon with each engine
	@mkdir -p bin && rm -f $(TESTRUN_SKIPPED)
	GORACE=atexit_sleep_ms=0 KATSUBUSHI_REQUIRE=1 $(TEST) -race -p 4 -skip '$(ONE_GOROUTINE)' $(LONGEST) ./...
	$(MAKE) --no-print-directory -j3 unit-net unit-epoll unit-sim unit-bars
	@test ! -e $(TESTRUN_SKIPPED) || { echo "tests that were skipped because something is missing here:"; sort -u $(TESTRUN_SKIPPED) | cut -f1 | uniq -c; }

unit-sim:
	KATSUBUSHI_REQUIRE=1 $(TEST) -count=1 ./test/sim ./test/explore
	$(TEST) -count=1 -run '$(ONE_GOROUTINE)' $(OF_ONE_GOROUTINE)

unit-bars:
	$(TEST) -count=1 -run 'TenThousand|NothingIsAllocated' ./internal/server/engines
	KATSUBUSHI_NAMES=1000 KATSUBUSHI_REQUIRE=1 $(TEST) -count=1 -run ManyNamesAreHandedOver ./internal/daemon

unit-net: ALSO = |$(ONE_GOROUTINE)

unit-net unit-epoll:
	KATSUBUSHI_ENGINE=$(@:unit-%=%) KATSUBUSHI_REQUIRE=1 $(TEST) -count=1 -run '$(EVERY_ENGINE)$(ALSO)' ./cmd/katsubushi

test-clients: ## real clients in nine languages: one PASS or FAIL line for each
	KATSUBUSHI_REQUIRE=1 $(GO) run ./test/clients

# What the recipes of examples/orm need. The test names what is missing all the same. They mostly wait, so five run at a time.
ORM_PACKAGES = $(shell sed -n 's/.*needs: *"\([^"]*\)".*/\1/p' test/orm/*_test.go | tr ' ' '\n' | sort -u)

test-examples: ## the programs of examples/ in seven languages, and its recipes for ORMs, their libraries installed first: one PASS or FAIL line for each
	-@$(MAKE) --no-print-directory deps PACKAGES='postgresql mariadb-server $(ORM_PACKAGES)'
	-@cmp -s examples/orm/node/package.json bin/_orm/installed.json || { \
	rm -rf bin/_orm && mkdir -p bin/_orm && cp examples/orm/node/package.json bin/_orm && cd bin/_orm && \
	npm install --no-audit --no-fund --ignore-scripts --loglevel=error && cp package.json installed.json; }
	@failed=; KATSUBUSHI_REQUIRE_EXAMPLES=1 $(GO) run ./test/clients -examples || failed=1; \
	KATSUBUSHI_REQUIRE=1 KATSUBUSHI_REQUIRE_EXAMPLES=1 $(GO) test -count=1 -parallel 5 -v ./examples/go-library ./test/orm || failed=1; test -z "$$failed"

test-docs: deps ## every command of README.md and docs/ that can be run, those that need ZooKeeper or a database included
	KATSUBUSHI_DOCS=1 KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -v ./test/docs

# Large, and built once; the pages are mounted from where they are.
bin/hugo:
	GOBIN=$(CURDIR)/bin CGO_ENABLED=0 $(GO) install $(HUGO)

docs-site: bin/hugo ## the documentation as a site with search, in bin/docs-site; every link in it is checked
	bin/hugo --quiet --noBuildLock --panicOnWarning --source docs-site --destination $(CURDIR)/bin/docs-site --cleanDestinationDir
	KATSUBUSHI_SITE=$(CURDIR)/bin/docs-site KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -run TestSite ./test/docs

links: ## the pages elsewhere that the documentation links to, where they can be reached
	KATSUBUSHI_LINKS=1 $(GO) test -count=1 -v -run TestOutsideLinks ./test/docs

test-systemd: ## the unit under a real systemd, in a container; as root, and it installs systemd-container
	@$(MAKE) --no-print-directory deps PACKAGES=systemd-container
	KATSUBUSHI_SYSTEMD=1 $(GO) test -count=1 -v ./test/systemd

# Grafana is not in Debian; its types are on npm.
test-dashboard: ## Grafana's own types check the dashboard in deploy/grafana; needs npm
	rm -rf bin/_dashboard && mkdir -p bin/_dashboard && cp deploy/grafana/check/* bin/_dashboard
	cd bin/_dashboard && npm install --no-audit --no-fund --silent && \
	{ echo 'import type { Dashboard } from "./dashboard";'; printf 'export const checked: Dashboard = '; cat ../../deploy/grafana/katsubushi.json; } >checked.ts && \
	node_modules/.bin/tsc --noEmit --strict --skipLibCheck --moduleResolution bundler --module esnext --target es2022 checked.ts && echo "PASS dashboard"

# Large, and built once, which takes some minutes.
bin/goreleaser:
	GOBIN=$(CURDIR)/bin $(GO) install $(GORELEASER)
bin/syft:
	GOBIN=$(CURDIR)/bin $(GO) install $(SYFT)

test-deb: bin/goreleaser ## deb and rpm are built; the deb is installed, upgraded, removed and purged under a real systemd; as root, and it installs systemd-container, lintian and rpm
	@$(MAKE) --no-print-directory deps PACKAGES="systemd-container lintian rpm"
	KATSUBUSHI_DEB=1 $(GO) test -count=1 -timeout 30m -v -run TestPackages ./test/systemd

# goreleaser takes no notice of the commit where the repository has no remote.
HAS_REMOTE = $$(git remote get-url origin >/dev/null 2>&1 || echo GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/katsubushi/katsubushi)

# Where there is systemd-nspawn and this is root, the deb is also installed under systemd.
release-check: bin/goreleaser bin/syft ## everything of a release but its publication, into bin/release: programs for six systems, archives, deb, rpm, SBOMs, checksums; each is verified, unpacked and started
	bin/goreleaser check
	env $(HAS_REMOTE) PATH=$(CURDIR)/bin:$$PATH bin/goreleaser release --snapshot --clean --skip=publish
	KATSUBUSHI_RELEASE=$(CURDIR)/bin/release $(GO) test -count=1 -timeout 20m -v -run TestReleaseRuns ./test/systemd

# The programs that this one replaces; a path in the environment saves the download.
KATSUBUSHI_KAYAC  ?= $(CURDIR)/bin/kayac/katsubushi
KATSUBUSHI_YARAUS ?= $(CURDIR)/bin/yaraus
bin/kayac/katsubushi:
	cd bench/kayac && $(GO) build -o $(CURDIR)/$@ github.com/kayac/go-katsubushi/v2/cmd/katsubushi
bin/yaraus:
	GOBIN=$(CURDIR)/bin $(GO) install github.com/shogo82148/yaraus/cmd/yaraus@818db09862af

# Chromium is large, so it is not among PACKAGES.
test-fleet: build ## the fleet of three hosts of test-page alone; as root, with etcd and Chromium
	cd test/page && $(GO) test -count=1 -timeout 30m -v -run TestThreeHosts ./...

test-page: build ## the status page of a real daemon in headless Chromium, which it installs, and as root a fleet of three hosts in network namespaces, with commands and times; pictures go to bin/page. KATSUBUSHI_PAGE_LOAD=10m fills the charts first
	@$(MAKE) --no-print-directory deps PACKAGES='chromium redis-server'
	cd test/page && $(GO) vet ./... && $(GO) test -count=1 -timeout 30m -v ./...

test-migration: $(patsubst $(CURDIR)/%,%,$(KATSUBUSHI_KAYAC) $(KATSUBUSHI_YARAUS)) ## fleets of kayac/go-katsubushi and of yaraus are replaced under load, daemon by daemon
	KATSUBUSHI_KAYAC=$(KATSUBUSHI_KAYAC) KATSUBUSHI_YARAUS=$(KATSUBUSHI_YARAUS) KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -v -run TestProcessMigration ./cmd/katsubushi

soak: ## simulated weeks, 25,000 random walks over each small world, ten minutes of clients that quit, a thousand restarts of the real daemon with kill -9 and its clock moved, ten minutes of the Go client with daemons killed and frozen, 1e8 values of a sequence between kills
	KATSUBUSHI_SOAK=1 $(GO) test -count=1 -timeout 60m -v ./test/sim
	KATSUBUSHI_SOAK=1 $(GO) test -count=1 -timeout 60m -v -run 'TestWalks|TestMutants$$|TestUnseenMutants' ./test/explore
	KATSUBUSHI_SOAK=1 $(GO) test -count=1 -timeout 60m -v -run QuitStorm ./internal/server/engines
	KATSUBUSHI_SOAK=1 $(GO) test -count=1 -timeout 60m -v -run EqualRandomBits ./internal/issuer
	KATSUBUSHI_SOAK=1 $(GO) test -count=1 -timeout 60m -v -run 'TestChaos$$' ./client
	KATSUBUSHI_SOAK=1 KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -timeout 60m -v -run 'KillLoop|StandsStill' ./cmd/katsubushi
	KATSUBUSHI_SOAK=1 KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -timeout 60m -v -parallel 1 -run 'StrictDemote|StrictKills|ThroughAFollower|SlowStore|FailedLogins|TimestampsASecond|AfterAWrongClock' ./cmd/katsubushi # these print what the bars are about

SEEDS ?= 1-6000
soak-pool: ## 1,000 simulated hours of each profile of a pool that compares and sets. SEEDS=1-300 is a slice of 50; slices add up
	KATSUBUSHI_SEED=$(SEEDS) $(GO) test -count=1 -timeout 60m -v -run 'TestPool$$' ./test/sim

explore: ## every schedule of small worlds with raised bounds; it goes on from bin/explored if that has files. KATSUBUSHI_WORLD=leases is one of them
	@mkdir -p bin/explored
	KATSUBUSHI_EXPLORE=$(CURDIR)/bin/explored $(GO) test -count=1 -timeout 90m -v -run 'TestEverySchedule$$|TestLong$$' ./test/explore

faults: ## worker ids from ZooKeeper and etcd: everything that may happen to one server and to three, which make test does for the most part
	KATSUBUSHI_SOAK=1 KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -timeout 30m -v ./workerid/zookeeper ./workerid/etcd

chaos: ## real daemons and Redis, etcd or ZooKeeper under random real faults: KATSUBUSHI_CHAOS_MINUTES (3), KATSUBUSHI_CHAOS_LANES (1,2,1,2), KATSUBUSHI_SEED
	KATSUBUSHI_REQUIRE=1 $(GO) test -tags chaos -timeout 30m -count=1 -v ./test/chaos

chaos-library: ## make chaos with two daemons and four programs that issue ids themselves, over each kind of store and state directories: KATSUBUSHI_CHAOS_MINUTES (3) of each
	KATSUBUSHI_CHAOS_LIBRARY=1 KATSUBUSHI_REQUIRE=1 $(GO) test -tags chaos -timeout 120m -parallel 6 -count=1 -v -run 'Library|StateFilesOfTwo' ./test/chaos

chaos-sequences: ## real daemons that lead strict sequences in turns, on a real etcd of three members, under random real faults: KATSUBUSHI_CHAOS_MINUTES (10), KATSUBUSHI_SEED
	KATSUBUSHI_CHAOS_MINUTES=$${KATSUBUSHI_CHAOS_MINUTES:-10} KATSUBUSHI_REQUIRE=1 $(GO) test -timeout 120m -count=1 -v -run TestStrictChaos ./cmd/katsubushi

mixed: ## make chaos with a fleet of two versions, OLD (a revision) and this tree, that also swap each other's state files, and share sequences in every kind of counter store
	KATSUBUSHI_CHAOS_OLD=$(or $(OLD),$(error OLD=revision)) KATSUBUSHI_REQUIRE=1 $(GO) test -tags chaos -timeout 60m -parallel 6 -count=1 -v -run 'Chaos|TwoVersions' ./test/chaos

test-downgrade: deps ## this version and OLD (a revision, by default the last one without upgrades in place) use each other's state files, sequences and pools, in turn and at once
	KATSUBUSHI_FORMER=$(or $(OLD),4d3b13551d) KATSUBUSHI_REQUIRE=1 $(GO) test -count=1 -timeout 15m -parallel 6 -v -run TestDowngrade ./cmd/katsubushi

bench: ## beside memcached and redis, into bench/RESULTS.md; wants the machine for itself
	$(GO) run ./bench -out bench/RESULTS.md
	cd bench/client && $(GO) run . -into ../RESULTS.md

figures: bench ## every figure of README, SIZING and OPERATING; wants the machine for itself
	KATSUBUSHI_IDLE_FIGURES=1 KATSUBUSHI_MEMORY_FIGURES=1 $(GO) test -timeout 30m -count=1 -v -run 'TestProcess(Idle|Size|Memory)Figures' ./cmd/katsubushi
	$(GO) test -count=1 -v -run TestTenThousandConnections ./internal/server/engines

bench-library: ## what an id costs inside a Go program, beside others that need no server
	cd bench/library && $(GO) run .

FUZZED = $(patsubst %/,%,$(sort $(dir $(shell git grep -l '^func Fuzz' -- '*_test.go'))))

# A number of inputs, or a time: if the time is up while a slow input runs, go test calls that a failure. Packages with TLS below them take
# minutes to be built for it.
fuzz: ## every fuzz target for FUZZTIME (3000x)
	@for p in $(FUZZED); do \
		for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' $$p/*_test.go); do \
			$(GO) test -vet=off -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) ./$$p || exit 1; \
		done; \
	done

vuln: ## known vulnerabilities, where the checker and its database can be reached
	@GOBIN=$(CURDIR)/bin $(GO) install $(GOVULNCHECK) 2>/dev/null || { echo "govulncheck: skipped, it cannot be fetched"; exit 0; }; \
	out=$$(bin/govulncheck ./... 2>&1); code=$$?; \
	if echo "$$out" | grep -q -e 'no such host' -e 'dial tcp' -e 'fetching vulnerabilities'; then \
		echo "govulncheck: skipped, its database cannot be reached"; \
	else echo "$$out"; exit $$code; fi

# Podman and buildah keep the health check in Docker's format only.
CONTAINER  ?= docker
THIS        = $(or $(VERSION),$(shell sed -n 's/^const untagged = "\(.*\)"/\1/p' cmd/katsubushi/version.go))
IMAGE      ?= katsubushi:$(THIS)
HEAD        = $(shell git describe --always --abbrev=40 --exclude='*' --dirty=-modified 2>/dev/null)

image: ## the container image, katsubushi:VERSION; CONTAINER=podman, IMAGE=name:tag
	BUILDAH_FORMAT=docker $(CONTAINER) build -t $(IMAGE) --build-arg VERSION=$(THIS) --build-arg COMMIT=$(or $(COMMIT),$(HEAD)) \
		--build-arg CREATED=$(shell date -u +%Y-%m-%dT%H:%M:%SZ) .

# A module of its own with helm, kustomize and Kubernetes' types. Kubeconform asks for the schemas of an API server, which are elsewhere.
test-kubernetes: ## deploy/kubernetes, deploy/helm and deploy/compose.yaml, read by kustomize, helm, Kubernetes' types, compose-go, and kubeconform where its schemas can be reached
	@rm -rf bin/rendered
	cd test/deploy && $(GO) vet ./... && KATSUBUSHI_RENDERED=$(CURDIR)/bin/rendered $(GO) test -count=1 -v ./...
	@out=$$($(GO) run $(KUBECONFORM) -strict -summary -skip ServiceMonitor,PrometheusRule bin/rendered 2>&1); code=$$?; \
	if echo "$$out" | grep -q -e 'no such host' -e 'dial tcp' -e 'giving up after'; then echo "kubeconform: skipped, its schemas cannot be reached"; \
	else echo "$$out"; exit $$code; fi

test-image: ## the image for two platforms, built and run here with podman and crun, which it installs; as root
	@command -v podman >/dev/null && command -v crun >/dev/null || { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends podman crun >/dev/null; }
	KATSUBUSHI_IMAGE=1 $(GO) test -count=1 -timeout 30m -v ./test/image
