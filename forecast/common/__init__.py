"""What every part stands on: errors, files, options, tables, processes, memory, time. It imports nothing of ours."""
