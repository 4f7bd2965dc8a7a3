package diagram

// Marks is how far a run has come, to be drawn into the diagram of its pack.
type Marks struct {
	// Visits by state.
	Visits map[string]int64
	// Followed counts events that were followed, by state and event.
	Followed map[[2]string]int64
	// Current is the state visited now, or last.
	Current string
}

// Mark draws a run into the diagram: its visits, the events it followed and where
// it is.
func (d *Diagram) Mark(m Marks) {
	for i := range d.Nodes {
		if n := &d.Nodes[i]; n.Kind == NodeState {
			n.Visits, n.Current = m.Visits[n.ID], n.ID == m.Current
		}
	}
	for i := range d.Edges {
		if e := &d.Edges[i]; e.Kind == EdgeEvent {
			e.Followed = m.Followed[[2]string{e.From, e.Event}]
		}
	}
}
