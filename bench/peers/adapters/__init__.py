"""One module a peer; each has a class Peer as `adapters.peer.Peer` describes it."""
