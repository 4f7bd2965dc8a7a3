package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	pawl "github.com/pawl-dev/pawl/clients/go"
	pawlv1 "github.com/pawl-dev/pawl/gen/go/pawl/v1"
	"github.com/pawl-dev/pawl/test/conformance/endpoint"
)

// answersRow begins the names of rows of cases of the scripted endpoint.
const answersRow = "answers/"

// answers is one language's part of the cases of the scripted endpoint: its executor asks it, on a
// sidecar that all cases of the language share.
type answers struct {
	set      *settings
	lang     string
	mode     mode
	endpoint *endpoint.Server
	sidecar  *sidecar
	client   *pawl.Client
	executor executor
	recorded *recorded
	// ledger is the file in which every tool writes down each call that it gets.
	ledger string
}

// executor is what executes the turns of a case's run.
type executor interface {
	// model is the model that the pack names. It is "" if the executor gets the model in another
	// way.
	model(c *endpoint.Case) string
	// execution of the run.
	execution() pawlv1.Execution
	// execute executes a run until it ends.
	execute(ctx context.Context, c *endpoint.Case, run string) error
	close() error
}

// runAnswers plays all cases in all languages, and adds their results to the columns.
func runAnswers(ctx context.Context, set *settings, columns []*column) {
	server, err := endpoint.Start(set.cases)
	if err != nil {
		columns[0].fail(err)
		return
	}
	defer func() { _ = server.Close() }()
	var running sync.WaitGroup
	all := &recorded{}
	for _, c := range columns {
		if c.mode.serves {
			continue // The executors serve runs by name in the columns of workers as well.
		}
		running.Go(func() {
			if err := runColumn(ctx, set, server, c, all); err != nil {
				c.fail(fmt.Errorf("answers: %w", err))
			}
		})
	}
	running.Wait()
	compare(set, columns, all)
}

// compare adds to each column what it recorded differently from those before it.
func compare(set *settings, columns []*column, all *recorded) {
	var names, languages []string
	for _, c := range set.cases {
		if !c.Expect.Endless { // How far an executor comes until a bound ends the run is its own.
			names = append(names, c.Name)
		}
	}
	columns = slices.DeleteFunc(slices.Clone(columns), func(c *column) bool { return c.mode.serves })
	for _, c := range columns {
		languages = append(languages, c.executor())
	}
	found := all.differences(names, languages)
	for _, c := range columns {
		r := result{passed: true}
		if lines := found[c.executor()]; len(lines) > 0 {
			r = result{err: errors.New(strings.Join(lines, "\n"))}
		}
		c.note(alikeRow, r)
	}
}

// executor is the name of the one that plays the cases in a column.
func (c *column) executor() string {
	if c.mode.async {
		return c.lang.name + "-async"
	}
	return c.lang.name
}

// runColumn plays the cases of one language, several at once.
func runColumn(ctx context.Context, set *settings, server *endpoint.Server, c *column, all *recorded) (err error) {
	rows, err := readKnown(set.root, c.lang.name)
	if err != nil {
		return err
	}
	a := &answers{set: set, lang: c.executor(), mode: c.mode, endpoint: server, recorded: all}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.open(c.lang); err != nil {
		return err
	}
	todo := make(chan *endpoint.Case, len(set.cases))
	for _, one := range set.cases {
		todo <- one
	}
	close(todo)
	var running sync.WaitGroup
	for range 2 * set.parallel {
		running.Go(func() {
			for one := range todo {
				began := time.Now()
				r := rows.newResult(one.Name, a.playCase(ctx, one))
				r.took = time.Since(began)
				c.note(answersRow+one.Name, r)
			}
		})
	}
	running.Wait()
	return a.sidecar.verify()
}

// open starts the sidecar and the executor.
func (a *answers) open(lang language) error {
	ledger, err := os.CreateTemp("", "pawl-ledger-*")
	if err != nil {
		return err
	}
	a.ledger = ledger.Name()
	if err := ledger.Close(); err != nil {
		return err
	}
	own := lang.name == "go"
	flags, files := sharedFlags, map[string]string(nil)
	if own {
		flags, files = append([]string{"--models", "{dir}/models.yaml"}, sharedFlags...), map[string]string{"models.yaml": a.models()}
	}
	if a.sidecar, err = newSidecar(a.set, flags, nil, nil, files); err != nil {
		return err
	}
	conn, err := grpc.NewClient(a.sidecar.address(), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		return err
	}
	if a.client, err = pawl.NewClient(pawl.Options{Conn: conn}); err != nil {
		return err
	}
	if own {
		a.executor, err = a.ownExecutor(conn)
		return err
	}
	a.executor, err = a.newExecutor(lang)
	return err
}

func (a *answers) close() error {
	var errs []error
	if a.executor != nil {
		errs = append(errs, a.executor.close())
	}
	if a.client != nil {
		errs = append(errs, a.client.Close())
	}
	if a.sidecar != nil {
		a.sidecar.remove()
	}
	return errors.Join(append(errs, os.Remove(a.ledger))...)
}

// playCase plays one case.
func (a *answers) playCase(ctx context.Context, c *endpoint.Case) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	id, document, err := packOf(c, a.lang, a.executor.model(c))
	if err != nil {
		return err
	}
	if _, err := a.client.RegisterPack(ctx, document, id+".json"); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	run, err := a.client.Start(ctx, &pawlv1.StartRunRequest{
		Pack: id, Execution: a.executor.execution(), Input: []*pawlv1.Part{{Content: &pawlv1.Part_Text{Text: "Three tulips, please."}}},
	})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	// What an executor says of a run that ended badly is no fault: the record is judged.
	told := a.executor.execute(ctx, c, run.ID())
	seen, err := a.readRun(ctx, c, run)
	if err == nil {
		err = judgeAnswers(c, seen)
	}
	if err == nil {
		a.recorded.note(c.Name, a.lang, seen)
	}
	if err != nil && told != nil {
		err = fmt.Errorf("%w\nthe executor: %w", err, told)
	}
	return err
}
