// Package transcript reads conversations with a grammar from files, and holds them as an engine does,
// however the bytes are cut.
//
//	== name of a conversation: a new connection
//	with budget 3          what the test is to set up; each grammar's tests know their own words
//	# a comment
//	C: a line that the client sends; CR LF is added
//	C. the same without CR LF
//	C# hex, and "text", as bytes
//	S: S. S#               what the server says
//	S! closed              the server closes; nothing may follow
//
// \r \n \t \\ \xNN stand for bytes, and \{n*c} for n times c.
package transcript
