package grpcapi

import (
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
)

// controlService is pawl.v1.ControlService. Its calls that change a run go the way of
// those of RunService, see [handled].
type controlService struct {
	pawlv1.UnimplementedControlServiceServer
	runs *runService
}
