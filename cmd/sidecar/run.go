package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/internal/config"
	"github.com/pawl-dev/pawl/internal/output"
	"github.com/pawl-dev/pawl/internal/pack"
	"github.com/pawl-dev/pawl/internal/script"
	"github.com/pawl-dev/pawl/internal/server"
)

const runHelp = `Executes one run of a pack in this process, on a temporary store that is removed at the
end. The engine and the synced commits are those of serve.

With --model, the sidecar calls models: --model NAME=BASE_URL[#MODEL]. MODEL is the endpoint's
name of the model (default: NAME). "anthropic+" before the URL selects Anthropic's API, and
"responses+" OpenAI's Responses API. The key is in PAWL_MODEL_KEY_NAME or in the file of --model-key
NAME=FILE. The command prints the model's output as it arrives and each state that the run enters.
When the run waits for a person, the command reads a line from standard input. Tool calls are
refused, because no worker executes them, and the model receives the refusal.

Exit codes: 0 the run ended COMPLETED, or waits and standard input has ended; 1 it ended with another
status; 2 the pack or the flags are invalid.

With --answers, the turns are answered from a YAML or JSON file. The file has variables, input, entry
(a state, or agent:MEMBER) and turns, a list of items. Input and output are a text, or another
value, which is encoded as JSON:

  - state: implement            # optional: the expected state
    steps:                      # requested and answered in this order
      - {tool: write_file, payload: {path: a.go}, status: ok, result: {bytes: 3}}
    artifacts: {commit_sha: abc123}
    event: CodeReady            # without it the turn completes without an event
    output: done
  - {fail: {message: no model, retryable: true}}
  - {external: Approved, artifacts: {note: looks good}}
  - {input: one more thing}     # a message for the next turn of the visit
  - {after: 10m}                # advances the clock for deadlines and timeouts
  - {cancel: not needed}

Unused answers are a warning. When no answers are left, the run remains in its state.

Exit codes: 0 every answer was accepted; 1 an answer was refused; 2 the pack or the answers
could not be read.`

func newRun(p *output.Printer) *cobra.Command {
	var file string
	var flags startFlags
	c := config.Default()
	c.AllowTools = []string{"*"}
	cmd := &cobra.Command{
		Use:   "run PACK (--answers FILE | --model NAME=URL)",
		Short: "Execute one run with a model or scripted answers, on a temporary store",
		Long:  runHelp,
		Example: `  pawl run my.pack.yaml --model gpt=https://api.openai.com/v1#gpt-5-mini --input "Hello"
  pawl run my.pack.yaml --answers turns.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file == "" && len(c.Models) == 0 {
				return output.Usage(errors.New("--answers, a file of scripted turns, or --model is required"))
			}
			content, err := readPack(args[0])
			if err != nil {
				return output.Usage(err)
			}
			if len(c.Models) > 0 {
				if !cmd.Flags().Changed("allow-tool") {
					c.AllowTools = nil
				}
				return runLive(cmd.Context(), p, cmd.InOrStdin(), c, content, &flags)
			}
			plays, err := script.Load(file)
			if err != nil {
				return output.Usage(err)
			}
			return runScript(cmd.Context(), p, c, content, plays)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&file, "answers", "", "file with scripted turns; - is standard input")
	config.ModelFlags(fs, &c)
	fs.StringVar(&flags.input, "input", "", "with --model: first message of the run, as text")
	fs.StringVar(&flags.agent, "agent", "", "with --model: agent of the pack to start")
	fs.StringArrayVar(&flags.vars, "var", nil, "with --model: text variable NAME=TEXT (repeatable)")
	fs.StringArrayVar(&flags.varsJSON, "var-json", nil, "with --model: JSON variable NAME=JSON (repeatable)")
	cmd.MarkFlagsMutuallyExclusive("answers", "model")
	for _, name := range []string{"input", "agent", "var", "var-json", "model-key"} {
		cmd.MarkFlagsMutuallyExclusive("answers", name)
	}
	fs.IntVar(&c.Limits.MaxTransitions, "max-transitions", c.Limits.MaxTransitions, "most transitions of the run; more end it")
	fs.StringArrayVar(&c.AllowTools, "allow-tool", c.AllowTools, "tool that the run may call, * for all (repeatable)")
	return cmd
}

// outcome is the result of running a script. A run with a model uses it too, without answers.
type outcome struct {
	run       *pawlv1.Run
	artifacts []*pawlv1.Artifact
	records   []*pawlv1.Record
	result    *script.Result
}

func runScript(ctx context.Context, p *output.Printer, c config.Config, content []byte, plays *script.File) (err error) {
	clock := script.NewClock()
	local, err := server.StartLocal(c, clock)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, local.Close()) }()
	registered, err := pawlv1.NewPackServiceClient(local.Conn).RegisterPack(ctx, &pawlv1.RegisterPackRequest{Content: content})
	if err != nil {
		return err
	}
	driver := &script.Driver{Runs: pawlv1.NewRunServiceClient(local.Conn), Clock: clock}
	if err := describe(driver, content); err != nil {
		return err
	}
	out := outcome{}
	if out.result, err = driver.Play(ctx, registered.GetPack().GetDigest(), plays); err != nil {
		return err
	}
	if err := out.read(ctx, driver.Runs); err != nil {
		return err
	}
	return out.print(p)
}

// describe sets the states, agents and artifact types of a pack in the driver that executes the script.
func describe(d *script.Driver, content []byte) error {
	loaded, _, err := pack.Load(content, pack.Options{})
	if err != nil || loaded == nil {
		return err
	}
	d.States, d.Agents, d.Types = loaded.States(), loaded.Agents(), map[string]string{}
	if loaded.Doc.Workflow == nil {
		return nil
	}
	for _, state := range loaded.Doc.Workflow.States {
		for name, artifact := range state.Artifacts {
			d.Types[name] = artifact.Type
		}
	}
	return nil
}

func (o *outcome) read(ctx context.Context, runs pawlv1.RunServiceClient) (err error) {
	if o.result.RunID == "" {
		return nil
	}
	got, err := runs.GetRun(ctx, &pawlv1.GetRunRequest{RunId: o.result.RunID, IncludeArtifacts: true})
	if err != nil {
		return err
	}
	o.run, o.artifacts = got.GetRun(), got.GetArtifacts()
	o.records, err = records(ctx, runs, "", o.result.RunID, allKinds())
	return err
}

func (o *outcome) print(p *output.Printer) error {
	for _, w := range o.result.Warnings {
		p.Warnf("%s %s", p.Warn("warning:"), w)
	}
	if p.JSON {
		if err := output.WriteJSON(p.Out, o.object()); err != nil {
			return err
		}
	} else if o.run != nil {
		printTrace(p, o.run, o.records, nil, false)
		p.Printf("\n")
		printRun(p, o.run, o.artifacts)
	}
	if o.result.Refused == nil {
		return nil
	}
	if !p.JSON {
		p.Warnf("%s %s refused: %s", p.Bad("error:"), o.where(), output.ProblemOf(o.result.Refused))
	}
	return output.Fault()
}

// where returns the place in the script whose request was refused: "start" or "turns[N]".
func (o *outcome) where() string {
	if o.result.Answer < 0 {
		return "start"
	}
	return "turns[" + itoa(o.result.Answer) + "]"
}

func (o *outcome) object() output.Object {
	doc := output.Object{{Key: "run", Value: nil}, {Key: "records", Value: output.Messages(o.records)}}
	if o.run != nil {
		doc[0].Value = output.RunWith(o.run, o.artifacts)
	}
	if len(o.result.Warnings) > 0 {
		doc = doc.WithField("warnings", o.result.Warnings)
	}
	if o.result.Refused != nil {
		problem := output.ProblemOf(o.result.Refused)
		problem.Metadata["answer"] = o.where()
		doc = doc.WithField("error", problem)
	}
	return doc
}
