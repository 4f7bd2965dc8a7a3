package server_test

import (
	"context"
	"fmt"
	"log"
	"os"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/script"
	"github.com/pawl-dev/pawl/internal/server"
)

// A whole sidecar inside the process, on a temporary store.
func ExampleStartLocal() {
	ctx := context.Background()
	local, err := server.StartLocal(config.Default(), script.NewClock())
	if err != nil {
		log.Fatal(err)
	}
	content, err := os.ReadFile("../../testdata/packs/rfc0009-3-self-correcting.json")
	if err != nil {
		log.Fatal(err)
	}
	if _, err := pawlv1.NewPackServiceClient(local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content}); err != nil {
		log.Fatal(err)
	}
	runs := pawlv1.NewRunServiceClient(local.Conn)
	start, err := runs.StartRun(ctx, &pawlv1.StartRunRequest{Pack: "self-correcting", Execution: pawlv1.Execution_EXECUTION_CALLER})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(start.GetRun().GetStatus(), start.GetRun().GetState(), start.GetRun().GetSeq())
	fmt.Println(local.Close())
	// Output:
	// RUN_STATUS_RUNNING work 1
	// <nil>
}
