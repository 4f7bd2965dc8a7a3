package machine

// Written returns the artifacts that a record wrote, in the order of the writes.
func Written(body Body) []ArtifactWrite {
	switch b := body.(type) {
	case *Transition:
		return b.Artifacts
	case *TurnCompleted:
		return b.Artifacts
	case *StepResolved:
		return b.Artifacts
	case *ArtifactsSet:
		return b.Artifacts
	case *Ended:
		return b.Artifacts
	case *CompensationStarted:
		return b.Artifacts
	case *Origin:
		return b.Artifacts
	}
	return nil
}
