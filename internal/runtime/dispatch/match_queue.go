package dispatch

import "github.com/pawl-dev/pawl/internal/runtime/machine"

// taskQueue contains the waiting work of one class, and the groups of workers that can execute it. The runs are served
// in rotation. The work of one run is served in order.
type taskQueue struct {
	of     machine.WorkClass
	pack   *packQueue
	served uint64
	groups map[*workerGroup]struct{}
	runs   map[string]*runQueue
	// head is the sentinel of a ring of the runs that have work, in the order in which they get workers.
	head  runQueue
	count int
}

// runQueue holds the waiting work of one run. The oldest work is first.
type runQueue struct {
	id         string
	work       []machine.Work
	prev, next *runQueue
}

func newTaskQueue(of machine.WorkClass, pack *packQueue) *taskQueue {
	c := &taskQueue{of: of, pack: pack, groups: make(map[*workerGroup]struct{}), runs: make(map[string]*runQueue)}
	c.head.prev, c.head.next = &c.head, &c.head
	return c
}

// join connects the queue with a group of workers, if the group can execute work of the class.
func (c *taskQueue) join(t *workerGroup) {
	if c.of.Kind != t.kind || !t.offer.Serves(&c.of) {
		return
	}
	c.groups[t], t.queues[c] = struct{}{}, struct{}{}
	if c.count > 0 {
		t.waiting[c] = struct{}{}
	}
}

// workers returns the number of workers that can execute work of the class, including those that are not free.
func (c *taskQueue) workers() int {
	n := 0
	for t := range c.groups {
		n += t.members
	}
	return n
}

// choose returns the worker for new work: the worker that had the run last, if it is free and can execute the work. Otherwise it is the
// free worker that has the least work, and among equals the one that got work longest ago. It returns nil if no worker is free.
func (c *taskQueue) choose(last *worker) *worker {
	if last != nil && last.free(c.of.Kind) {
		if _, serves := c.groups[last.of(c.of.Kind).group]; serves {
			return last
		}
	}
	var best *worker
	for t := range c.groups {
		if w := t.free.first(); w != nil && (best == nil || w.before(best, c.of.Kind)) {
			best = w
		}
	}
	return best
}

// add changes the amount of waiting work by n. It also updates which groups have waiting work.
func (c *taskQueue) add(n int) {
	before := c.count
	c.count += n
	switch {
	case before == 0:
		for t := range c.groups {
			t.waiting[c] = struct{}{}
		}
	case c.count == 0:
		for t := range c.groups {
			delete(t.waiting, c)
		}
	}
}

func (c *taskQueue) push(work machine.Work) {
	c.add(1)
	run := c.runs[work.RunID]
	if run == nil {
		run = &runQueue{id: work.RunID}
		c.runs[run.id] = run
		c.link(run)
	}
	run.work = append(run.work, work)
}

// pop removes and returns the oldest work of the next run, and moves the run to the end of the rotation. The queue must
// not be empty.
func (c *taskQueue) pop() machine.Work {
	run := c.head.next
	work := run.work[0]
	c.unlink(run)
	c.drop(run, 0)
	if len(run.work) > 0 {
		c.link(run)
	}
	return work
}

// remove removes one piece of work, which must be in the queue.
func (c *taskQueue) remove(id machine.WorkID) {
	run := c.runs[id.RunID]
	for i := range run.work {
		if run.work[i].Step != id.Step {
			continue
		}
		if c.drop(run, i); len(run.work) == 0 {
			c.unlink(run)
		}
		return
	}
}

func (c *taskQueue) drop(run *runQueue, i int) {
	run.work = append(run.work[:i], run.work[i+1:]...)
	c.add(-1)
	if len(run.work) == 0 {
		delete(c.runs, run.id)
	}
}

// link puts a run at the end of the rotation in which runs get workers.
func (c *taskQueue) link(run *runQueue) {
	run.prev, run.next = c.head.prev, &c.head
	run.prev.next, c.head.prev = run, run
}

func (c *taskQueue) unlink(run *runQueue) {
	run.prev.next, run.next.prev = run.next, run.prev
}
