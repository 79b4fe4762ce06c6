module github.com/katsubushi/katsubushi

go 1.26
