module github.com/katsubushi/katsubushi/v3/bench/client

go 1.26.0

require (
	github.com/bradfitz/gomemcache v0.0.0-20260422231931-4d751bb6e37c
	github.com/katsubushi/katsubushi/v3 v3.0.0
	github.com/redis/rueidis v1.0.79
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/katsubushi/katsubushi/v3 => ../..
