// Package redislink connects stores to Redis: to one server, by Sentinels, or to the node of a cluster
// that has a key. A call is sent once over one dedicated connection, because the client library would
// repeat it and lose the answer to the first attempt.
//
// Not promised: that the server which was found is the only master, or is one for long. What is said to
// it must check.
package redislink
