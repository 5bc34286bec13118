"""Every call outside the doors that opens, maps, starts or removes something, and why it may.

`tests/test_doors.py` compares this list with the sources: file, function, call (and how often, if more than once).
A new call belongs here with its reason, or goes through `bushel.storage.doors`.
"""

OWN = "files of bushel's own, in folders that doors.check_own_folder looked at before"
OURS = "temporary files that this process made, or files that the caller named to be written"
MEMORY = "bytes in memory, not a file: Pillow, tarfile or NumPy over io.BytesIO"
NAMED = "a file that the user names on the command line or in a call, not one that data names"
LISTED = "files that a listing found: os.scandir says that they are ordinary ones"
CHECKED = "after doors.open_inside, why_not_inside or refuse_special has looked at it"
DOOR = "a door itself, or a verb of storage that the doors and all rooms use"
SYSTEM = "files of the system, such as those in /proc, or of the package"
SCRIPT = "code that the user named as code, and its copy"
FITTED = "files of transforms, which transforms.by_name lets through only inside the data, or if they are trusted"

SETTINGS = "settings of the working folder, which storage.trust has judged; baselines that are named"
TREES = "a model of a run that the user names; arrays without pickles, checked when they are loaded"
RUN = "the run that the user names; arrays without pickles"
TAR = "a tar that the user names; its members are read into memory, and none is unpacked"
TEXT = "TextFile.open, which opens by storage.open_to_read"
FFMPEG = "ffmpeg, with `file:` before an absolute name, so that none is taken for an address"
DATABASE = "SQLite to read only, with an authorizer"
EXCEL = "an Excel file that the user names"
WEB = "addresses, by an opener that knows http and https alone; a folder that the user names"
OPENED = "bushel.open, which opens datasets by their manifest"
PICKLED = (
    "what this build pickled in a folder of its own, which _journal of another machine never is; or a pipe to a worker"
)
STARTED = "a process of bushel's own: Python with -P, or the user's script in its copy"

ALLOWED: dict[str, dict[str, str]] = {
    "building/engines.py": {
        "FileCounters.make: path.write_bytes": OWN,
        "FileCounters.begin: np.memmap": OWN,
        "FileCounters.total: np.memmap": OWN,
    },
    "building/output/journal.py": {
        "Journal.identity: self._identity.read_bytes": OWN,
        "Journal._forget_what_was_not_on_disk: path.unlink": OWN,
        "Journal._forget_what_was_not_on_disk: shutil.rmtree": OWN,
        "Journal.is_of_this_machine: self._boot.read_text": OWN,
        "Journal.clean: path.unlink": OWN,
        "Journal.clean: shutil.rmtree": OWN,
        "Journal.outcomes: self._done / f'{task}.json'.read_bytes": OWN,
        "Journal.forget_shards: path.unlink": OWN,
        "Journal.remove: self._identity.unlink": OWN,
        "Journal.remove: shutil.rmtree": OWN,
        "Journal.empty: self._identity.unlink": OWN,
        "Journal.lock: os.open": OWN,
        "StoredJournal.clean: path.unlink": OWN,
        "StoredJournal.remove: self._identity.unlink": OWN,
        "StoredJournal.empty: self._identity.unlink": OWN,
        "Quarantine.add: self._temporary.open": OWN,
        "Quarantine.close: self.path.unlink": OWN,
        "read_quarantine: path.open": OWN,
        "join_quarantines: into.read_bytes": OWN,
        "join_quarantines: path.read_bytes": OWN,
    },
    "building/output/output_folder.py": {
        "OutputFolder.frozen: path.read_bytes": OWN,
        "OutputFolder.give_up: self.folder.rmdir": OWN,
        "_finish_swap: shutil.rmtree x2": OWN,
        "OutputStore.prepare: self.folder / QUARANTINE_NAME.write_bytes": OWN,
        "OutputStore.prepare: before.read_bytes": OWN,
        "OutputStore.show_refused: self.target / QUARANTINE_NAME.write_bytes": OWN,
        "OutputStore.show_refused: self.folder / QUARANTINE_NAME.read_bytes": OWN,
        "OutputStore.finish: self.target / name.write_bytes": OWN,
        "OutputStore.finish: self.folder / name.read_bytes": OWN,
        "OutputStore.finish: shutil.rmtree": OWN,
        "OutputStore.give_up: shutil.rmtree": OWN,
        "_move_up: new / MANIFEST_NAME.unlink": OWN,
        "_put_manifest: folder / MANIFEST_NAME.write_bytes": OWN,
        "_fetch: target.write_bytes": OWN,
        "_fetch: source.read_bytes": OWN,
        "_describe: output.target / name.unlink": OWN,
    },
    "building/output/writer.py": {
        "Sink.__init__: self._temporary.open": OURS,
        "Sink.__del__: self._temporary.unlink": OURS,
        "Sink.discard: self._temporary.unlink": OURS,
        "Writer.close: sidecar_path(self.path).unlink": OURS,
    },
    "building/planning/draft.py": {
        "_listed_partitions: pickled.unlink": OWN,
        "pickled_source: path.write_bytes": OWN,
        "load_source: pickled.read_bytes": OWN,
        "load_source: pickle.loads": PICKLED,
    },
    "building/planning/plan.py": {
        "Plan.disk_bytes: path.read_bytes": OWN,
        "_saved_keys: stem.with_suffix(_NUMBERS).read_bytes": OWN,
        "save_keys: stem.with_suffix(_NUMBERS).unlink": OWN,
        "load_plan: folder / 'plan.json'.read_bytes": OWN,
    },
    "building/planning/planner.py": {
        "_reading.read: pickled.unlink": OWN,
    },
    "building/planning/synthesis.py": {
        "BalancedSource._made: pickle.loads": PICKLED,
        "BalancedSource._made: self.folder / MADE_NAME.read_bytes": OWN,
    },
    "building/record_encoding.py": {
        "load_fits: pickle.loads": PICKLED,
        "load_fits: path.read_bytes": OWN,
    },
    "building/run.py": {
        "_Build._pickled: path.write_bytes": OWN,
    },
    "building/shard_files.py": {
        "ShardFile.__post_init__: self._temporary.open": OWN,
        "ShardFile.__exit__: self._temporary.unlink": OWN,
        "deliver: done.unlink": OWN,
        "SortedRunWriter.__post_init__: self._temporary.open": OWN,
        "SortedRunWriter.__exit__: self._temporary.unlink": OWN,
    },
    "building/tasks.py": {
        "perform: pickle.loads": PICKLED,
        "perform: as_path(job).read_bytes": OWN,
    },
    "checking/collect/duplicates.py": {
        "DuplicateFinder._spill: Path(self._folder.name) / str(part).open": OURS,
    },
    "checking/collect/facts.py": {
        "FileFacts.digest: self.path.open": LISTED,
    },
    "checking/collect/image_and_sound_facts.py": {
        "_look_at: Image.open": MEMORY,
    },
    "checking/collect/memory.py": {
        "_write: path.open": OURS,
    },
    "checking/findings.py": {
        "load_settings: path.read_bytes": SETTINGS,
        "read_baseline: Path(path).read_bytes": SETTINGS,
    },
    "checking/rules/model_rules.py": {
        "_compile_config: zipfile.ZipFile": NAMED,
    },
    "checking/running/child.py": {
        "_main: Path(top) / 'seen.jsonl'.open": SCRIPT,
        "_forbid_writing_outside: os.open": SCRIPT,
        "_forbid_network: open": SCRIPT,
        "_run: Path(entry).read_bytes": SCRIPT,
        "_serve: job.read_text": SCRIPT,
        "_begin_forked: job.read_text": SCRIPT,
        "_begin_forked: os.open x2": SCRIPT,
        "module: Path(sys.argv[1]).read_text": SCRIPT,
    },
    "checking/running/execution.py": {
        "run_script: entry.write_text": SCRIPT,
        "run_script: top / 'job.json'.write_text": SCRIPT,
        "_copy_tree: shutil.copyfile": SCRIPT,
        "_link_named: path.read_text": SCRIPT,
        "_lines: path.read_text": SCRIPT,
        "_tail: path.read_bytes": SCRIPT,
    },
    "checking/running/processes.py": {
        "_started: job.parent / 'output.txt'.open": SYSTEM,
        "_usage: Path(f'/proc/{one}/statm').read_text": SYSTEM,
        "_stat: Path(f'/proc/{pid}/stat').read_text": SYSTEM,
        "_family: Path(f'/proc/{one}/environ').read_bytes": SYSTEM,
        "_started: subprocess.Popen": STARTED,
        "_WarmProcess.__init__: subprocess.Popen": STARTED,
    },
    "checking/script/followed_script.py": {
        "read_script: path.read_text": SCRIPT,
    },
    "cli/__init__.py": {
        "_Terminal._try: os.open": SYSTEM,
    },
    "cli/file_commands.py": {
        "_foreign_record: bushel.open": NAMED,
        "view: webbrowser.open": NAMED,
    },
    "cli/train.py": {
        "_export_run: Path(asked.out) / 'export.json'.read_text": NAMED,
        "_export_dataset: bushel.open": NAMED,
    },
    "data/columns.py": {
        "roomy: np.memmap": OWN,
        "write_columns: folder / 'columns.json'.write_text": OWN,
        "load_columns: folder / 'columns.json'.read_text": OWN,
        "_map: np.load": OWN,
    },
    "data/sound_decoding.py": {
        "_opened: load_av().open": FFMPEG,
    },
    "exporting.py": {
        "write_webdataset: tarfile.open": OURS,
        "_write_new: path.read_bytes": OURS,
        "_write_once: temporary.write_bytes": OURS,
        "_splits: open": OURS,
        "_begin: journal / 'identity'.read_text": OURS,
        "_begin: shutil.rmtree": OWN,
        "_Export._finish: self._mark(part).read_bytes": OURS,
        "_Export._finish: shutil.rmtree": OURS,
    },
    "feeding/trees.py": {
        "load_trees: path.open": TREES,
        "load_trees: zipfile.ZipFile": TREES,
        "load_trees: np.load": TREES,
    },
    "keras.py": {
        "_refuse_code: h5py.File": NAMED,
        "quietly: os.open": NAMED,
    },
    "parallel.py": {
        "_start: subprocess.Popen": STARTED,
        "own_seconds: Path('/proc/thread-self/schedstat').read_bytes": SYSTEM,
        "serve: pickle.loads x2": PICKLED,
        "_answer: pickle.loads": PICKLED,
        "_receive: pickle.loads": PICKLED,
    },
    "pixels/codecs.py": {
        "_decode_other: Image.open": MEMORY,
        "_decode: Image.open": MEMORY,
        "_unpack: Image.open": MEMORY,
    },
    "ray/cluster.py": {
        "look: token.write_text": OURS,
        "look: token.unlink": OURS,
        "_question.answer.fault_of_writing: found.read_text": OURS,
        "_question.answer.fault_of_writing: beside.write_text": OURS,
        "_question.answer.fault_of_writing: beside.unlink": OURS,
    },
    "ray/engine.py": {
        "_portable: pickle.loads": PICKLED,
    },
    "reading/feed.py": {
        "_one_split: open": OPENED,
    },
    "records/record_roles.py": {
        "count_levels: Image.open": MEMORY,
    },
    "sources/array_source.py": {
        "_open_hdf5: _h5py().File": CHECKED,
        "_Hdf5Place.load: np.memmap": CHECKED,
        "_refuse_outside: _h5py().File": CHECKED,
        "_of_file: zipfile.ZipFile": CHECKED,
        "_load_npy: np.load": CHECKED,
        "_load_member: zipfile.ZipFile": CHECKED,
        "_load_member: archive.open": CHECKED,
        "_load_member: np.load": CHECKED,
        "_unpacked: np.memmap": CHECKED,
        "_map_member: path.open": CHECKED,
        "_map_member: np.memmap": CHECKED,
    },
    "sources/detection/boxed_images.py": {
        "_turn_png: Image.open": MEMORY,
    },
    "sources/folders.py": {
        "_Walk.visit: self.open": LISTED,
        "_opened: own.open": LISTED,
    },
    "sources/image_checks.py": {
        "_open: Image.open": MEMORY,
    },
    "sources/image_tiles.py": {
        "_size: Image.open": MEMORY,
        "TiffReader._decode_other: Image.open": MEMORY,
        "TiffReader.__init__: path.open": LISTED,
    },
    "sources/mask_folder.py": {
        "_count_levels: Image.open": MEMORY,
        "_read_ids: Image.open": MEMORY,
    },
    "sources/in_memory.py": {
        "_load: path.open": OURS,
        "_load: pickle.load": PICKLED,
    },
    "sources/marked.py": {
        "add_mark: path.open": NAMED,
    },
    "sources/series_rows.py": {
        "collect_rows: shutil.rmtree": OURS,
        "_collect: path.open": OURS,
        "_collect: np.memmap": OURS,
    },
    "sources/tables/delimited.py": {
        "DelimitedFile.survey: TextFile.open": TEXT,
        "DelimitedFile.read: TextFile.open": TEXT,
    },
    "sources/tables/json_lines.py": {
        "JsonLinesFile.survey: TextFile.open": TEXT,
        "JsonLinesFile.read: TextFile.open": TEXT,
    },
    "sources/tables/row_sources.py": {
        "_open_sqlite: sqlite3.connect": DATABASE,
    },
    "sources/tables/spreadsheets.py": {
        "SheetRows.__call__: openpyxl.load_workbook": EXCEL,
        "SheetRows._rows: zipfile.ZipFile": EXCEL,
    },
    "sources/tables/table.py": {
        "_features_of: pa.memory_map": CHECKED,
    },
    "sources/tables/table_files.py": {
        "ArrowFile._batches: pa.memory_map": LISTED,
    },
    "sources/tars.py": {
        "_files_in: path.open": TAR,
        "_files_in: tarfile.open": TAR,
        "_array_in: np.load": TAR,
    },
    "sources/text_files.py": {
        "LineSource._open: TextFile.open": TEXT,
    },
    "sources/video_files.py": {
        "_opened: av.open": FFMPEG,
    },
    "storage/cache.py": {
        "Cache.find: path.open": DOOR,
        "Cache.forget: self.folder / name.unlink": DOOR,
        "Cache._fetch: os.truncate": DOOR,
        "Cache._pin: os.open": DOOR,
        "Cache._fetching: os.open": DOOR,
        "Cache._new_file: Path(name).unlink": DOOR,
        "Cache.evict: os.open": DOOR,
        "_remove_unless_held: os.open": DOOR,
        "_remove_unless_held: path.unlink": DOOR,
        "map_array: local_copy(path).open": DOOR,
    },
    "storage/doors.py": {
        "open_inside: root / name.open": DOOR,
        "open_inside: os.fdopen": DOOR,
        "open_named: path.open": DOOR,
        "open_named: os.open": DOOR,
        "open_named: os.fdopen": DOOR,
        "read_named: path.read_bytes": DOOR,
        "_opened: os.open": DOOR,
        "_walk: os.open x2": DOOR,
        "empty_folder: os.open": DOOR,
        "empty_folder: shutil.rmtree": DOOR,
        "empty_folder: os.unlink": DOOR,
    },
    "storage/downloads.py": {
        "Downloads.fetch: kept.read_bytes": WEB,
        "Downloads.fetch: temporary.write_bytes": WEB,
        "Downloads._download: self._opener().open": WEB,
    },
    "storage/file_kinds.py": {
        "inflated: igzip.open": DOOR,
    },
    "storage/objects.py": {
        "ObjectPath.read_text: self.read_bytes": DOOR,
        "ObjectPath.write_text: self.write_bytes": DOOR,
    },
    "storage/stores.py": {
        "_google_config: Path(file).read_bytes": SYSTEM,
    },
    "storage/whole_files.py": {
        "openable: path.open": DOOR,
        "load_bytes: path.read_bytes": DOOR,
        "read_past_cache: path.open": DOOR,
        "fetch_extents: into.open": DOOR,
        "_fetched: path.read_bytes": DOOR,
        "give_name: temporary.unlink": DOOR,
        "write_whole: temporary.open": DOOR,
        "write_whole: temporary.unlink": DOOR,
        "copy_file: target.write_bytes": DOOR,
        "copy_file: source.read_bytes": DOOR,
    },
    "storage/whole_folders.py": {
        "replace_folder: shutil.rmtree": DOOR,
        "sync_folder: os.open": DOOR,
        "Holding.release: self.path.fresh().unlink": DOOR,
        "_read: path.read_bytes": DOOR,
        "boot_of_machine: Path('/proc/sys/kernel/random/boot_id').read_text": SYSTEM,
        "_start_of: Path(f'/proc/{process}/stat').read_text": SYSTEM,
    },
    "training/exporting.py": {
        "export_run: made / _ABOUT.write_bytes": OURS,
        "export_run: shutil.rmtree": OURS,
        "_write_litert: path.write_bytes": OURS,
        "_verify: subprocess.run": STARTED,
    },
    "training/inputs/choose.py": {
        "_look_at_images: Image.open": MEMORY,
    },
    "training/report.py": {
        "_picture: Image.open": MEMORY,
    },
    "training/run_folder.py": {
        "make_folder: out / name.unlink": RUN,
        "make_folder: path.unlink": RUN,
        "make_folder: shutil.rmtree": RUN,
        "_read_checkpoint: path.open": RUN,
        "_read_checkpoint: np.load": RUN,
    },
    "transforms/image.py": {
        "_moved_mask: Image.open": MEMORY,
    },
    "transforms/text_vectors.py": {
        "_digest: Path(file).open": FITTED,
        "_read_npy: np.load": FITTED,
        "_read_npy: Path(words).read_bytes": FITTED,
        "_read_text: path.read_bytes": FITTED,
    },
    "transforms/texts.py": {
        "TokeniseFile.__post_init__: Path(self.file).read_bytes": FITTED,
    },
    "viewing/runs.py": {
        "LoadedRun.predicted: np.load": RUN,
    },
    "viewing/server.py": {
        "make_app: entry.read_bytes": SYSTEM,
    },
    "viewing/showing.py": {
        "_audio_of: wave.open": MEMORY,
    },
}
