package membership

import "time"

// minRefreshInterval is the shortest time between two polls that unknown keys cause.
const minRefreshInterval = 100 * time.Millisecond

// Known reports whether a key belongs to a live node. If the key is unknown, it polls once more before
// it answers.
func (n *Node) Known(key [32]byte) bool {
	if n.knows(key) {
		return true
	}
	n.awaitRefresh()
	return n.knows(key)
}

func (n *Node) knows(key [32]byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, m := range n.view.Nodes {
		if m.Key == key && !m.outsideCluster() {
			return time.Since(n.viewRequestedAt) < n.cfg.Lease
		}
	}
	return false
}

// awaitRefresh waits until a poll has succeeded or failed.
func (n *Node) awaitRefresh() {
	n.mu.Lock()
	came, looked := time.Now(), n.polled
	first := n.lastPoll.Add(minRefreshInterval)
	n.mu.Unlock()
	time.Sleep(time.Until(first))
	timeout := time.NewTimer(n.cfg.Every)
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
