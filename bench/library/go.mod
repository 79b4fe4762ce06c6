module github.com/katsubushi/katsubushi/v3/bench/library

go 1.26.0

require (
	github.com/bwmarrin/snowflake v0.3.0
	github.com/google/uuid v1.6.0
	github.com/katsubushi/katsubushi/v3 v3.0.0
	github.com/rs/xid v1.6.0
	github.com/sony/sonyflake/v2 v2.2.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/katsubushi/katsubushi/v3 => ../..
