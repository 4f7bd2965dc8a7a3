package main

// databaseMutants are faults of a store that is in a database.
var databaseMutants = []mutant{
	{
		name: "d01", what: "a commit whose answer is lost is taken for stored", file: "internal/store/fencing/owner.go",
		exchange: exchange{old: "\t\tcase st.Commit == c.number:\n", new: "\t\tcase st.Commit <= c.number:\n"},
	},
	{
		name: "d02", what: "a commit that is stored and whose answer is lost is sent again for ever", file: "internal/store/fencing/owner.go",
		exchange: exchange{old: "\t\tcase st.Commit == c.number:\n", new: "\t\tcase st.Commit > c.number:\n"},
	},
	{
		name: "d03", what: "readers see what the standby does not have yet", file: "internal/store/fencing/owner.go",
		exchange: exchange{old: "\t\tif o.last.Load() >= number {\n", new: "\t\tif number > 0 {\n"},
	},
}
