// Package cas leases worker ids from any store that offers a linearizable compare-and-set over several
// small records. A Driver does the talking, package pool decides, and a Session keeps what must be
// known between calls. Store takes turns among calls and lets them outlive their contexts.
//
// The guarantee is package pool's, if a Driver keeps what its comment says.
package cas
