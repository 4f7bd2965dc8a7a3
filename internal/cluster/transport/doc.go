// Package transport is how nodes reach each other: the port on which a node takes the calls of
// others, and the connections by which it makes them.
//
// Owns: who is a node, by a certificate that each makes at its start and whose digest the rows of
// the cluster have; and what goes along with a call: who makes it, in which partition and
// namespace, under which trace. The node that took the call from outside has found out who its
// caller is and what that may do, and which partition the call belongs to. Nodes have one link to
// each other, however many partitions they have.
// Keeps: who shows no certificate of a node gets nothing but a failed handshake; a call that comes
// by the port is made here, at the house of the partition that it names, or refused with NOT_OWNER,
// never sent on; what a caller says in keys of ours does not leave the node that it came to; a link
// to a node stays for as long as that has any partition.
package transport
