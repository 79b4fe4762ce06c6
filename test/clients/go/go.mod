module github.com/katsubushi/katsubushi/v3/test/clients/go

go 1.26.0

require (
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/couchbase/gomemcached v0.3.4
	github.com/grafana/gomemcache v0.0.0-20251127154401-74f93547077b
	github.com/grobie/gomemcache v0.0.0-20230213081705-239240bbc445
	github.com/kayac/go-katsubushi/v2 v2.0.4
	github.com/memcachier/mc/v3 v3.0.3
	github.com/rainycape/memcache v0.0.0-20150622160815-1031fa0ce2f2
	github.com/redis/go-redis/v9 v9.23.0
	google.golang.org/grpc v1.56.3
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/couchbase/goutils v0.1.2 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/google/flatbuffers v24.3.25+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/crypto v0.32.0 // indirect
	golang.org/x/net v0.25.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.21.0 // indirect
	google.golang.org/genproto v0.0.0-20230410155749-daa745c078e1 // indirect
	google.golang.org/protobuf v1.33.0 // indirect
)
