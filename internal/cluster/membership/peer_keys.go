package membership

import "time"

// minRefreshInterval is the shortest time between two polls of the database that are made because a
// caller has an unknown key.
const minRefreshInterval = 100 * time.Millisecond

// KnowsKey reports whether a key (the SHA-256 of a node's certificate) belongs to a live node. If the key
// is unknown, KnowsKey waits for another poll of the database before it answers.
func (n *Node) KnowsKey(key [32]byte) bool {
	if n.hasLiveKey(key) {
		return true
	}
	n.awaitRefresh()
	return n.hasLiveKey(key)
}

func (n *Node) hasLiveKey(key [32]byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.view.Nodes {
		if m.Key == key && !m.outsideCluster() {
			return time.Since(n.viewRequestedAt) < n.cfg.Lease
		}
	}
	return false
}

// awaitRefresh waits for the end of a poll of the database that began after this call. It waits at most
// minRefreshInterval and Config.PollInterval together.
func (n *Node) awaitRefresh() {
	n.mu.Lock()
	came, looked := time.Now(), n.polled
	first := n.lastPoll.Add(minRefreshInterval)
	n.mu.Unlock()
	time.Sleep(time.Until(first))
	timeout := time.NewTimer(n.cfg.PollInterval)
	defer timeout.Stop()
	for {
		n.Refresh()
		select {
		case <-looked:
		case <-timeout.C:
			return
		}
		n.mu.Lock()
		done := n.lastPoll.After(came)
		looked = n.polled
		n.mu.Unlock()
		if done {
			return
		}
	}
}
