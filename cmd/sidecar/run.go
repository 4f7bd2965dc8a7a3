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

const runHelp = `Drives one run of a pack in this process, on a temporary store: the same engine and
the same synced commits as serve, nothing of it kept.

With --model the sidecar asks models itself: --model NAME=BASE_URL[#MODEL], where
MODEL is what the endpoint calls it (default NAME), and "anthropic+" before the URL
for Anthropic's form, "responses+" for OpenAI's Responses. The key is in
PAWL_MODEL_KEY_NAME or in the file of --model-key NAME=FILE. What the model says is shown as it comes, states as they are entered. Where
the run waits for a person, standard input is read, a line each. Tools are refused,
and the model gets the refusal: no worker serves them here. Exit codes: 0 the run completed, or
waits and nothing more is said; 1 it ended otherwise; 2 pack or flags could not be read.

With --answers the turns are answered from a YAML or JSON file. The file has variables, input, entry (a state, or agent:MEMBER) and turns, a list
whose items each do one thing. Input and output are a text, or any other value,
which travels as JSON:

  - state: implement            # asserted when given
    steps:                      # requested and resolved one after another
      - {tool: write_file, payload: {path: a.go}, status: ok, result: {bytes: 3}}
    artifacts: {commit_sha: abc123}
    event: CodeReady            # none: the turn is completed without an event
    output: done
  - {fail: {message: no model, retryable: true}}
  - {external: Approved, artifacts: {note: looks good}}
  - {input: one more thing}     # a message for the next turn of the visit
  - {after: 10m}                # lets time pass for deadlines and timeouts
  - {cancel: not needed}

Answers that are left over are a warning; answers that run out leave the run
where it is. Exit codes: 0 every answer was taken; 1 an answer was refused; 2 the
pack or the answers could not be read.`

func newRun(p *output.Printer) *cobra.Command {
	var file string
	var flags startFlags
	c := config.Default()
	c.AllowTools = []string{"*"}
	cmd := &cobra.Command{
		Use:   "run PACK (--answers FILE | --model NAME=URL)",
		Short: "Drive one run with a model, or with scripted answers, on a temporary store",
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
	fs.StringVar(&file, "answers", "", "file of scripted turns, - for standard input")
	config.ModelFlags(fs, &c)
	fs.StringVar(&flags.input, "input", "", "first message of the run, text; with --model")
	fs.StringVar(&flags.agent, "agent", "", "agent of the pack to start; with --model")
	fs.StringArrayVar(&flags.vars, "var", nil, "variable NAME=TEXT; with --model (repeatable)")
	fs.StringArrayVar(&flags.varsJSON, "var-json", nil, "variable NAME=JSON; with --model (repeatable)")
	cmd.MarkFlagsMutuallyExclusive("answers", "model")
	for _, name := range []string{"input", "agent", "var", "var-json", "model-key"} {
		cmd.MarkFlagsMutuallyExclusive("answers", name)
	}
	fs.IntVar(&c.Limits.MaxTransitions, "max-transitions", c.Limits.MaxTransitions, "end the run when it makes more transitions")
	fs.StringArrayVar(&c.AllowTools, "allow-tool", c.AllowTools, "tool that may be called (repeatable)")
	return cmd
}

// outcome is what a script left behind.
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

// describe tells a driver what the pack declares.
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

// where names the refused item.
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
		doc = doc.With("warnings", o.result.Warnings)
	}
	if o.result.Refused != nil {
		problem := output.ProblemOf(o.result.Refused)
		problem.Metadata["answer"] = o.where()
		doc = doc.With("error", problem)
	}
	return doc
}
