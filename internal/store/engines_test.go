package store

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pawl-dev/pawl/internal/store/engine"
	"github.com/pawl-dev/pawl/internal/store/memkv"
	"github.com/pawl-dev/pawl/internal/store/pg/dsn"
	"github.com/pawl-dev/pawl/internal/store/pgengine"
	"github.com/pawl-dev/pawl/test/testkit/pgserver"
)

func TestMain(m *testing.M) { pgserver.Main(m) }

// onEach are the tests that hold on every engine. By themselves they are run on Badger, by
// [TestForEachKV] on the others.
var onEach = map[string]func(*testing.T){
	"TestABrokenBackupIsNotRemembered":         TestABrokenBackupIsNotRemembered,
	"TestACopyOfTheOpenStoreHoldsEveryCommit":  TestACopyOfTheOpenStoreHoldsEveryCommit,
	"TestALookRaisesNothing":                   TestALookRaisesNothing,
	"TestAccountRows":                          TestAccountRows,
	"TestAccountsAreChecked":                   TestAccountsAreChecked,
	"TestAfterClose":                           TestAfterClose,
	"TestAgenda":                               TestAgenda,
	"TestAnswerFollowsTheSync":                 TestAnswerFollowsTheSync,
	"TestArtifactVersionsAndMessages":          TestArtifactVersionsAndMessages,
	"TestBackupChain":                          TestBackupChain,
	"TestBackupForeign":                        TestBackupForeign,
	"TestBackupUnderLoad":                      TestBackupUnderLoad,
	"TestBackupsAreForgotten":                  TestBackupsAreForgotten,
	"TestBatchTooLarge":                        TestBatchTooLarge,
	"TestBlobs":                                TestBlobs,
	"TestBrokenBatch":                          TestBrokenBatch,
	"TestBusinessKeysAreChecked":               TestBusinessKeysAreChecked,
	"TestCensusCountsAgain":                    TestCensusCountsAgain,
	"TestCensusFollowsCommits":                 TestCensusFollowsCommits,
	"TestChangedBackupIsRefused":               TestChangedBackupIsRefused,
	"TestCheckCountsWhatIsInOrder":             TestCheckCountsWhatIsInOrder,
	"TestCheckEndsWithItsContext":              TestCheckEndsWithItsContext,
	"TestCheckFindsBlobFaults":                 TestCheckFindsBlobFaults,
	"TestCheckFindsEveryChangedByte":           TestCheckFindsEveryChangedByte,
	"TestCheckFindsEveryLostRow":               TestCheckFindsEveryLostRow,
	"TestCheckFindsOrphans":                    TestCheckFindsOrphans,
	"TestCheckNamesTheFirstBadRecord":          TestCheckNamesTheFirstBadRecord,
	"TestCheckOfErasedRuns":                    TestCheckOfErasedRuns,
	"TestCheckWhileARunIsRemoved":              TestCheckWhileARunIsRemoved,
	"TestCheckpointsBoundTheReplay":            TestCheckpointsBoundTheReplay,
	"TestCloseStoresWhatWaits":                 TestCloseStoresWhatWaits,
	"TestCommitErrorIsIndeterminate":           TestCommitErrorIsIndeterminate,
	"TestCommitIsReadBack":                     TestCommitIsReadBack,
	"TestConflictFailsOnlyItsBatch":            TestConflictFailsOnlyItsBatch,
	"TestContextLimitsOnlyTheWaiting":          TestContextLimitsOnlyTheWaiting,
	"TestCopyOfKeys":                           TestCopyOfKeys,
	"TestCountRuns":                            TestCountRuns,
	"TestDeadLettersAreBounded":                TestDeadLettersAreBounded,
	"TestDecisions":                            TestDecisions,
	"TestDecisionsEnd":                         TestDecisionsEnd,
	"TestDeleteRun":                            TestDeleteRun,
	"TestDeleteRunIsEndedAfterACrash":          TestDeleteRunIsEndedAfterACrash,
	"TestDeleteWhoseCallerGoes":                TestDeleteWhoseCallerGoes,
	"TestDeletedLast":                          TestDeletedLast,
	"TestDeletedRunIsErased":                   TestDeletedRunIsErased,
	"TestDeletesAtRandom":                      TestDeletesAtRandom,
	"TestDiskIsProportionalToWhatWasWritten":   TestDiskIsProportionalToWhatWasWritten,
	"TestDropIsEndedAfterACrash":               TestDropIsEndedAfterACrash,
	"TestDropSubscriptionWithManyLetters":      TestDropSubscriptionWithManyLetters,
	"TestDropWithoutItsCaller":                 TestDropWithoutItsCaller,
	"TestDueTimersInOrder":                     TestDueTimersInOrder,
	"TestEmptyLogOfALivingProcessIsLeftAlone":  TestEmptyLogOfALivingProcessIsLeftAlone,
	"TestEntriesFromAnywhere":                  TestEntriesFromAnywhere,
	"TestEraseRun":                             TestEraseRun,
	"TestErasureIsEndedAfterACrash":            TestErasureIsEndedAfterACrash,
	"TestFirstKeyAfterACrash":                  TestFirstKeyAfterACrash,
	"TestForgetDeleted":                        TestForgetDeleted,
	"TestGuardsHoldAtEveryDistance":            TestGuardsHoldAtEveryDistance,
	"TestGuardsSeeTheGroupInFlight":            TestGuardsSeeTheGroupInFlight,
	"TestHeadBehindItsRun":                     TestHeadBehindItsRun,
	"TestHeadIsStoredWhereRowsSaySo":           TestHeadIsStoredWhereRowsSaySo,
	"TestHoldStep":                             TestHoldStep,
	"TestHoldStepInAGroup":                     TestHoldStepInAGroup,
	"TestHoleIsNoEnd":                          TestHoleIsNoEnd,
	"TestImportAfterDelete":                    TestImportAfterDelete,
	"TestImportIsRefusedWhole":                 TestImportIsRefusedWhole,
	"TestImportedRunIsReadAndNeverDriven":      TestImportedRunIsReadAndNeverDriven,
	"TestImportedRunsAreCharged":               TestImportedRunsAreCharged,
	"TestJournalIsEverythingInOrder":           TestJournalIsEverythingInOrder,
	"TestKeeperWorksInTheBackground":           TestKeeperWorksInTheBackground,
	"TestKeyWaitsForItsRemoval":                TestKeyWaitsForItsRemoval,
	"TestKeysAndRowsBelongTogether":            TestKeysAndRowsBelongTogether,
	"TestKeysPerTransition":                    TestKeysPerTransition,
	"TestLargeGroupsAreCut":                    TestLargeGroupsAreCut,
	"TestLastBackup":                           TestLastBackup,
	"TestListLooksAtSoMany":                    TestListLooksAtSoMany,
	"TestListPacksPages":                       TestListPacksPages,
	"TestListRunsByEveryFilter":                TestListRunsByEveryFilter,
	"TestManyPieces":                           TestManyPieces,
	"TestMarkIsLoweredInItsGroup":              TestMarkIsLoweredInItsGroup,
	"TestMarksNeverHideARow":                   TestMarksNeverHideARow,
	"TestMeasure":                              TestMeasure,
	"TestMovedTimerStays":                      TestMovedTimerStays,
	"TestNameTooLong":                          TestNameTooLong,
	"TestNamespacesKeepTheirNumbers":           TestNamespacesKeepTheirNumbers,
	"TestNamespacesShareNoNumber":              TestNamespacesShareNoNumber,
	"TestOldHeadIsFound":                       TestOldHeadIsFound,
	"TestOneRequestIDMakesOneRun":              TestOneRequestIDMakesOneRun,
	"TestOutboxAndReady":                       TestOutboxAndReady,
	"TestOutboxOfANamespace":                   TestOutboxOfANamespace,
	"TestPacksByEveryReference":                TestPacksByEveryReference,
	"TestPagesAreBounded":                      TestPagesAreBounded,
	"TestPreconditionsNeedAGuard":              TestPreconditionsNeedAGuard,
	"TestProveAllNamesEachRun":                 TestProveAllNamesEachRun,
	"TestProveExportOfAnything":                TestProveExportOfAnything,
	"TestProveNamesTheFirstBadRecord":          TestProveNamesTheFirstBadRecord,
	"TestPutPackAgain":                         TestPutPackAgain,
	"TestPutPackRaces":                         TestPutPackRaces,
	"TestReadsEndWithTheirContext":             TestReadsEndWithTheirContext,
	"TestRefusedGroupReadsAnew":                TestRefusedGroupReadsAnew,
	"TestReopenKeepsEverything":                TestReopenKeepsEverything,
	"TestRepairKnowsDeletedRuns":               TestRepairKnowsDeletedRuns,
	"TestRepairLeavesBrokenRuns":               TestRepairLeavesBrokenRuns,
	"TestRepairLeavesErasedRuns":               TestRepairLeavesErasedRuns,
	"TestRepairOfARunThatIsBeingRemoved":       TestRepairOfARunThatIsBeingRemoved,
	"TestRepairOfEachKindOfRow":                TestRepairOfEachKindOfRow,
	"TestRepairOfEverything":                   TestRepairOfEverything,
	"TestRepairOfWatermarks":                   TestRepairOfWatermarks,
	"TestRepairRollsNothingBack":               TestRepairRollsNothingBack,
	"TestRestoreOfAnotherFormat":               TestRestoreOfAnotherFormat,
	"TestRestoreOfErasedRuns":                  TestRestoreOfErasedRuns,
	"TestRunBehindItsHeadNeedsAReplay":         TestRunBehindItsHeadNeedsAReplay,
	"TestRunBytes":                             TestRunBytes,
	"TestScanSkipsTheDead":                     TestScanSkipsTheDead,
	"TestSecondOpenFailsLoudly":                TestSecondOpenFailsLoudly,
	"TestShortestIndex":                        TestShortestIndex,
	"TestStartKilledAtAnyInstant":              TestStartKilledAtAnyInstant,
	"TestStartKilledAtEachStep":                TestStartKilledAtEachStep,
	"TestSubscriptionOfAnImportedRun":          TestSubscriptionOfAnImportedRun,
	"TestSubscriptions":                        TestSubscriptions,
	"TestSweepBlobs":                           TestSweepBlobs,
	"TestSweepMeetsReference":                  TestSweepMeetsReference,
	"TestSweepsAmongCommits":                   TestSweepsAmongCommits,
	"TestTakenIDIsRefusedWhateverIsRemembered": TestTakenIDIsRefusedWhateverIsRemembered,
	"TestTasks":                                TestTasks,
	"TestTimerBelowTheStoredMark":              TestTimerBelowTheStoredMark,
	"TestTimersSetDuringScans":                 TestTimersSetDuringScans,
	"TestTrimLetters":                          TestTrimLetters,
	"TestTrimLettersAfterACrash":               TestTrimLettersAfterACrash,
	"TestTrimLettersAtRandom":                  TestTrimLettersAtRandom,
	"TestTwoSuccessorsOfOneSeq":                TestTwoSuccessorsOfOneSeq,
	"TestUnfinishedImportIsRemoved":            TestUnfinishedImportIsRemoved,
	"TestUnpackRefusesEveryDamage":             TestUnpackRefusesEveryDamage,
	"TestUntold":                               TestUntold,
	"TestUnusedKeyIsGivenAgain":                TestUnusedKeyIsGivenAgain,
	"TestUploadRace":                           TestUploadRace,
	"TestUsageIsBounded":                       TestUsageIsBounded,
	"TestUsageIsChecked":                       TestUsageIsChecked,
	"TestUsageIsTheLedger":                     TestUsageIsTheLedger,
	"TestUsageOfAnImportedRun":                 TestUsageOfAnImportedRun,
	"TestUsageOfAnInputWithoutIt":              TestUsageOfAnInputWithoutIt,
	"TestUsageOfAnOlderStore":                  TestUsageOfAnOlderStore,
	"TestUsageSinceAfterDeletions":             TestUsageSinceAfterDeletions,
	"TestWatermarkNeverHidesATimer":            TestWatermarkNeverHidesATimer,
}

// onBadger are the tests about the files of a directory, about what Badger does with them, or
// about no engine at all.
var onBadger = strings.Fields(`
	TestBadgersMessagesReachTheLogger TestBusinessKeysTravel TestCloseWhileACompactionIsHeld
	TestCloseWhileNothingCanBeFlushed TestCollectionLeavesDamagedValues TestCompact TestCompactIsBrokenOff
	TestCompactLeavesOtherStores TestCompactRefusesWhatWasLost TestCompactThroughALink TestCompactedKeys
	TestCopyOnAFullDisk TestSalvage TestSalvageOfALostEnd TestSalvageOfAMergedTable TestSalvageOfAWholeDirectory
	TestSalvageOfRunKeys TestScrubReportsATableThatCannotBeOpened
	TestDamage TestDataKeyCutShort TestDeleteOnALowDisk TestDeletedDirectory TestDiscardNeverPassesARead
	TestDiskLow TestDiskShrinks TestEmptiedLogIsNotTakenForUnborn TestEveryKindIsInTheTable
	TestForeignDatabaseIsRefused TestFreeSpaceThatNobodyKnows TestFreshIsBounded TestFreshProvesOnlyWhatItSaw
	TestFullDiskNeverKills TestFullDiskProcess TestGapsOfARow TestHeadFile TestHeaderOfAnEncryptedLog
	TestKeyAndDirectoryBelongTogether TestKeyOfAFailedBeginningIsGivenAgain TestKeysSortAsTheirNames TestKilledProcess TestKilledStart
	TestLargeKindsAreInTheTable TestNewestTasksAreFew TestNoValueInAnyFile TestNothingReadableOnDisk
	TestOpenAfterACrashInTheBirthOfAFile TestOpenLeavesAMigrationAlone TestOptionsNameAllFaults
	TestOtherFormatsAreRefused TestReadsDoNotWaitForASync TestRecentTurnsOver TestRegistryIsMissed
	TestRemovalOnAFullDisk TestRotate TestRotateRunKeys TestSIGKILL TestScrub TestSizes TestStoreWithoutHeadFile
	TestSwallowedSyncErrorIsAnError TestYardstickIsAlone
`)

// onNoOther are the tests that choose their engines themselves.
var onNoOther = []string{"TestAReadThatFailsIsTold", "TestAStartWhoseReadFails", "TestAnEngineThatCounts", "TestAWriteWhoseReadFails", "TestEveryMethodIsKnown", "TestEveryTestIsOnEachEngine", "TestForEachKV", "TestFormatIsRaised", "TestMoveIntoADirectory", "TestMoveThroughADatabase", "TestReadsTakeOneView", "TestSamePairs", "TestTakesMissedChanges"}

// notOnPostgres are tests of onEach that hold for an engine in this process alone, with why.
var notOnPostgres = map[string]string{
	"TestKeysAndRowsBelongTogether":           "it puts other files of keys into a directory",
	"TestCopyOfKeys":                          "it copies the file of keys",
	"TestRestoreOfErasedRuns":                 "it restores beside a file of keys",
	"TestEmptyLogOfALivingProcessIsLeftAlone": "it is about a log of Badger's",
	"TestDiskIsProportionalToWhatWasWritten":  "it measures a directory",
}

// TestForEachKV runs the tests of the store on every engine but Badger.
func TestForEachKV(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		for name, test := range onEach {
			t.Run(name, test)
		}
	})
	t.Run("postgres", func(t *testing.T) {
		postgres.url = pgserver.Database(t)
		for name, test := range onEach {
			if notOnPostgres[name] == "" {
				t.Run(name, test)
			}
		}
	})
}

// TestEveryTestIsOnEachEngine, or in a list of those that are not.
func TestEveryTestIsOnEachEngine(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`).FindAllStringSubmatch(string(text), -1) {
			name := match[1]
			if onEach[name] == nil && !slices.Contains(onBadger, name) && !slices.Contains(onNoOther, name) {
				t.Errorf("%s: %s is in none of the lists", file, name)
			}
		}
	}
}

// memories are the databases in memory, by the directory of their store.
var memories sync.Map

// postgres is the database of [TestForEachKV], with a schema for each directory.
var postgres struct {
	url     string
	made    atomic.Int64
	schemas sync.Map
}

// schemaOf is the schema of a store's directory.
func schemaOf(dir string) string {
	name, _ := postgres.schemas.LoadOrStore(dir, fmt.Sprintf("store_%d", postgres.made.Add(1)))
	return name.(string)
}

// copySchema makes what a crash now would leave of the store of a directory.
func copySchema(t testing.TB, from, to string) {
	t.Helper()
	made, err := openPostgres(Options{Dir: to})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	old, next := schemaOf(from), schemaOf(to)
	sql := "BEGIN ISOLATION LEVEL REPEATABLE READ; DELETE FROM " + next + ".part;"
	for _, table := range []string{"part", "hot", "cold", "run_keys"} {
		sql += fmt.Sprintf("INSERT INTO %s.%s SELECT * FROM %s.%s;", next, table, old, table)
	}
	at, err := url.Parse(postgres.url)
	if err != nil {
		t.Fatal(err)
	}
	pgserver.Shared(t).Query(t, strings.Trim(at.Path, "/"), sql+"UPDATE "+next+".part SET lease_until = '-infinity'; COMMIT")
}

func openPostgres(o Options) (engine.Engine, error) { return openPostgresAt(postgres.url, o) }

func openPostgresAt(url string, o Options) (engine.Engine, error) {
	d, err := pgengine.Open(pgengine.Config{
		URL: dsn.Parse(url), Schema: schemaOf(o.Dir), Readers: 4, Logger: o.Logger, RunKeys: o.Hooks.RunKeys,
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// onEngineOf has a store of a test opened on the engine that the test is run on, which its name
// says: see [TestForEachKV].
func onEngineOf(t testing.TB, o *Options) {
	switch {
	case strings.HasPrefix(t.Name(), "TestForEachKV/postgres/"):
		o.Engine = openPostgres
	case strings.HasPrefix(t.Name(), "TestForEachKV/memory/"):
		o.Engine = func(o Options) (engine.Engine, error) {
			db, _ := memories.LoadOrStore(o.Dir, memkv.New())
			e, err := memkv.Open(db.(*memkv.DB), o.Dir, o.Hooks.RunKeys)
			if err != nil {
				return nil, err
			}
			return e, nil
		}
	}
}

// openOn is [Open] on the engine of the test.
func openOn(t testing.TB, o Options) (*Store, error) {
	onEngineOf(t, &o)
	return Open(o)
}
