package server

import (
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/test/testkit/endpoint"
)

const modelPack = `{
  "id": "word", "name": "Word", "version": "1.0.0", "template_engine": {"version": "v1", "syntax": "{{variable}}"},
  "prompts": {"say": {"id": "say", "name": "Say", "version": "1.0.0", "system_template": "Say."}},
  "workflow": {"version": 2, "entry": "end", "states": {"end": {"prompt_task": "say", "terminal": true}}}
}`

// TestModelsAreReadAgain: a signal puts other models and keys in force, from none at all; a
// faulty file leaves those that there were, and the log says so without the key.
func TestModelsAreReadAgain(t *testing.T) {
	t.Parallel()
	model := endpoint.New(t, func(int, endpoint.Request) endpoint.Answer { return endpoint.Answer{Text: "Word."} })
	c := settings(t)
	c.ModelTimeout = time.Minute
	c.ModelsFile = writeFile(t, "models.yaml", "{}")
	key := writeFile(t, "key", "sk-first-key")
	c.Packs = []string{writeFile(t, "word.json", modelPack)}
	server, log := serveLogged(t, c)
	runs := pawlv1.NewRunServiceClient(dial(t, server.ready.GRPC))
	begin := func() error {
		got, err := runs.StartRun(t.Context(), &pawlv1.StartRunRequest{Pack: "word", Execution: pawlv1.Execution_EXECUTION_SIDECAR})
		if err == nil {
			_, err = runs.WaitRun(t.Context(), &pawlv1.WaitRunRequest{RunId: got.GetRun().GetRunId()})
		}
		return err
	}
	shown := func() string {
		asked := model.Requests()
		return asked[len(asked)-1].Header.Get("Authorization")
	}
	again := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin(); err == nil || !strings.Contains(err.Error(), "NO_MODELS") {
		t.Errorf("%v", err)
	}
	again(c.ModelsFile, "gpt: {url: "+model.URL+", key_file: "+key+"}")
	for begin() != nil {
		if t.Context().Err() != nil {
			t.Fatal("no model comes")
		}
	}
	if got := shown(); got != "Bearer sk-first-key" {
		t.Errorf("key %q", got)
	}
	again(key, "sk-second-key")
	for shown() != "Bearer sk-second-key" {
		if err := begin(); err != nil {
			t.Fatal(err)
		}
	}
	again(key, "sk third key")
	log.await(t, "reload failed")
	if err := begin(); err != nil || shown() != "Bearer sk-second-key" {
		t.Errorf("%v, key %q", err, shown())
	}
	if logText := log.String(); strings.Contains(logText, "-key\"") || strings.Contains(logText, "third key") || !strings.Contains(logText, "reload failed, previous settings kept") {
		t.Errorf("the log says %s", logText)
	}
}

// TestBadModelsAreTold: every fault at once, none of them with a key.
func TestBadModelsAreTold(t *testing.T) {
	t.Parallel()
	open := writeFile(t, "open", "sk-open-key")
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	c := config.Config{Models: []string{"gpt", "a-b=http://h", "a_b=http://h", "c=http://h"}, ModelKeys: []string{"c=" + open, "nobody=/k", "c"}}
	c.ModelsFile = writeFile(t, "models.yaml", "d: {url: ftp://h}\nc: http://h\ne: {url: http://h, key_file: "+open+"}\n")
	_, err := readModels(c, func(name string) (string, bool) { return map[string]string{"PAWL_MODEL_KEY_C": "sk c key"}[name], true })
	if _, ok := errors.AsType[*config.Error](err); !ok {
		t.Fatal(err)
	}
	for _, says := range []string{
		"model[0]: is no NAME=BASE_URL", "model[2]: a_b and a-b have one variable", "PAWL_MODEL_KEY_C: a key is printable ASCII",
		"models.yaml:1:1: d: d: want http", "models.yaml:2:1: c: c and c have one variable", "e.key_file: ", "model_key[0]: ",
		"model_key[1]: no --model has the name \"nobody\"", "model_key[2]: is no NAME=FILE",
	} {
		if !strings.Contains(err.Error(), says) {
			t.Errorf("no %q in %v", says, err)
		}
	}
	if strings.Contains(err.Error(), "open-key") || strings.Contains(err.Error(), "sk c") {
		t.Errorf("a key in %v", err)
	}
}
