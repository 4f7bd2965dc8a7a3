package diagram

// Marks is the progress of a run, to be added to the diagram of its pack.
type Marks struct {
	// Visits are the numbers of visits by state.
	Visits map[string]int64
	// Followed counts the followed events, by state and event.
	Followed map[[2]string]int64
	// Current is the current state of the run, or its last one.
	Current string
}

// Mark adds a run to the diagram: its visits, the events that it followed and its current state.
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
