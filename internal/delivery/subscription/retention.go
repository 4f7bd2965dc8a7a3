package subscription

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-dev/pawl/internal/runtime/machine"
)

// RetentionConfig contains the retention times of unused subscriptions. The zero value keeps all of
// them.
type RetentionConfig struct {
	// ConsumerRetention is how long the position of a consumer is kept after its last read. For the
	// same time after that, the consumer gets the error CONSUMER_EXPIRED when it returns. Then its name
	// is free for a new consumer. 0 means that positions are kept permanently.
	ConsumerRetention time.Duration
	// DeadLetterRetention is how long dead letters are kept. 0 means permanently. MaxDeadLetters limits
	// the number of dead letters of a namespace. 0 means that only the limit of each subscription
	// applies.
	DeadLetterRetention time.Duration
	MaxDeadLetters      int
	// DeadLetters removes dead letters. It is required if DeadLetterRetention or MaxDeadLetters is set.
	DeadLetters DeadLetterTrimmer
	// OnExpired is called with the kind of the removed items, "consumer" or "dead_letter", and their
	// number. It may be nil.
	OnExpired func(namespace uint32, what string, n int)
}

// DeadLetterTrimmer removes dead letters.
type DeadLetterTrimmer interface {
	// TrimDeadLetters removes the dead letters of one namespace that became dead before the time
	// before, in Unix nanoseconds. If more than most letters remain, it removes the oldest letters of
	// the receivers that have the most letters, until most remain. If most is 0, their number is not
	// limited.
	TrimDeadLetters(ctx context.Context, ns uint32, before int64, most int) (removed int, err error)
}

// seenPart limits how old the stored time of a consumer's last read may be. The stored time is updated
// when it is ConsumerRetention / seenPart out of date, because a commit for each read would cost too
// much.
const seenPart = 8

// reasonExpired is the reason of the error for an expired consumer.
const reasonExpired = "CONSUMER_EXPIRED"

// expiredError returns the error for a consumer that did not read for too long.
func expiredError(sub *machine.Subscription) error {
	return &machine.Error{
		Code: machine.CodeFailedPrecondition, Reason: reasonExpired, Field: "consumer",
		Message: fmt.Sprintf("the consumer %q has not read since %s, and its position was discarded: delete it, and start again from a position that you know",
			sub.ID, time.Unix(0, sub.SeenAt).UTC().Format(time.RFC3339)),
	}
}

// Forget removes unused subscriptions and old dead letters in all namespaces. If there is an error in
// one namespace, Forget continues with the others.
func (r *Service) Forget(ctx context.Context) error {
	var errs []error
	for _, ns := range r.cfg.Engine.NamespaceNumbers() {
		errs = append(errs, r.expireConsumers(ctx, ns), r.expireDeadLetters(ctx, ns))
	}
	return errors.Join(errs...)
}

func (r *Service) reportExpired(ns uint32, what string, n int) {
	if n > 0 && r.cfg.Retention.OnExpired != nil {
		r.cfg.Retention.OnExpired(ns, what, n)
	}
}

func (r *Service) expireDeadLetters(ctx context.Context, ns uint32) error {
	ends, before := &r.cfg.Retention, int64(0)
	if ends.DeadLetterRetention == 0 && ends.MaxDeadLetters == 0 {
		return nil
	}
	if ends.DeadLetterRetention != 0 {
		before = r.cfg.Clock.Now().Add(-ends.DeadLetterRetention).UnixNano()
	}
	n, err := ends.DeadLetters.TrimDeadLetters(ctx, ns, before, ends.MaxDeadLetters)
	r.reportExpired(ns, "dead_letter", n)
	return err
}

// expireConsumers drops the positions of consumers of a namespace that did not read for ConsumerRetention.
func (r *Service) expireConsumers(ctx context.Context, ns uint32) error {
	if r.cfg.Retention.ConsumerRetention == 0 {
		return nil
	}
	all, err := r.cfg.Store.Subscriptions(ctx, ns, machine.SubscriptionConsumer, "")
	if err != nil {
		return inSubscription(machine.SubscriptionKey{}, err)
	}
	var errs []error
	for i := range all {
		if errs = append(errs, r.expireConsumer(ctx, all[i].SubscriptionKey)); ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

// expireConsumer expires one consumer. Depending on how long ago the consumer has read, it stores the
// time of the last read, drops the consumer's position, or removes the consumer.
func (r *Service) expireConsumer(ctx context.Context, key machine.SubscriptionKey) error {
	now, gone, after := r.cfg.Clock.Now(), false, r.cfg.Retention.ConsumerRetention
	sub, err := r.change(ctx, key, func(before *machine.Subscription) (*machine.Subscription, error) {
		if before == nil {
			return nil, notFoundError(key.Kind, key.ID)
		}
		next := *before
		switch seen := r.consumers.lastRead(key, now); {
		case before.Done:
			return nil, nil //nolint:nilnil // it stays unchanged
		case before.SeenAt == 0:
			next.SeenAt = now.UnixNano()
		case seen.Sub(time.Unix(0, before.SeenAt)) > after/seenPart:
			next.SeenAt = seen.UnixNano()
		case now.Sub(lastReadTime(seen, before.SeenAt)) >= after:
			next.Done, gone = true, true
		default:
			return nil, nil //nolint:nilnil // as above
		}
		return &next, nil
	})
	if refusal, ok := errors.AsType[*machine.Error](err); ok && refusal.Code == machine.CodeNotFound {
		return nil
	}
	if err != nil {
		return err
	}
	if gone {
		// The consumer may have opened a stream of records in the meantime. It is ended, because the
		// position was dropped.
		r.consumers.end(key, expiredError(&sub))
		r.reportExpired(key.Namespace, "consumer", 1)
	}
	if sub.Done && now.Sub(time.Unix(0, sub.SeenAt)) >= 2*after {
		err = r.remove(ctx, key, func(now *machine.Subscription) error {
			if now == nil || !now.Done || now.CreatedAt != sub.CreatedAt {
				return errAnother
			}
			return nil
		})
	}
	if errors.Is(err, errAnother) {
		return nil
	}
	return err
}

// errAnother means that the expired consumer was deleted in the meantime. A new consumer may have the
// same name.
var errAnother = errors.New("another consumer")

// lastReadTime returns the time of a consumer's last read. seen is the time that this process knows, and
// stored is the stored time. lastReadTime returns the later time.
func lastReadTime(seen time.Time, stored int64) time.Time {
	if at := time.Unix(0, stored); at.After(seen) {
		return at
	}
	return seen
}
