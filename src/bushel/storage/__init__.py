"""Where files are, on disk or in an object store: paths, listings, and writing that happens completely or not at all.

Stores are a kind of path. The rest of bushel calls the verbs below and does not ask which kind it has; the few places
that choose between two ways of working are listed in `tests/test_layers.py`.
"""

from __future__ import annotations

from bushel.storage.cache import find_array as find_array
from bushel.storage.cache import kept_bytes as kept_bytes
from bushel.storage.cache import local_copy as local_copy
from bushel.storage.cache import map_array as map_array
from bushel.storage.doors import check_own_folder as check_own_folder
from bushel.storage.doors import empty_folder as empty_folder
from bushel.storage.doors import make_own_folder as make_own_folder
from bushel.storage.doors import name_for_library as name_for_library
from bushel.storage.doors import open_inside as open_inside
from bushel.storage.doors import open_named as open_named
from bushel.storage.doors import read_inside as read_inside
from bushel.storage.doors import read_named as read_named
from bushel.storage.doors import refuse_special as refuse_special
from bushel.storage.doors import why_not_inside as why_not_inside
from bushel.storage.listing import TFDS_FEATURES as TFDS_FEATURES
from bushel.storage.listing import TFDS_INFO as TFDS_INFO
from bushel.storage.listing import AnyPath as AnyPath
from bushel.storage.listing import FolderPart as FolderPart
from bushel.storage.listing import Scanner as Scanner
from bushel.storage.listing import Witness as Witness
from bushel.storage.listing import as_path as as_path
from bushel.storage.listing import disk_folders as disk_folders
from bushel.storage.listing import disk_sizes as disk_sizes
from bushel.storage.listing import fault_of_witness as fault_of_witness
from bushel.storage.listing import files_beside as files_beside
from bushel.storage.listing import first_in as first_in
from bushel.storage.listing import fixed_part as fixed_part
from bushel.storage.listing import is_in_store as is_in_store
from bushel.storage.listing import list_files as list_files
from bushel.storage.listing import listed as listed
from bushel.storage.listing import local_name as local_name
from bushel.storage.listing import may_have_changed as may_have_changed
from bushel.storage.listing import names_below as names_below
from bushel.storage.listing import natural_order as natural_order
from bushel.storage.listing import on_disk as on_disk
from bushel.storage.listing import paths_below as paths_below
from bushel.storage.listing import presence as presence
from bushel.storage.listing import scanner_of as scanner_of
from bushel.storage.listing import shard_paths as shard_paths
from bushel.storage.listing import sharing_help as sharing_help
from bushel.storage.listing import sibling as sibling
from bushel.storage.listing import sizes_in as sizes_in
from bushel.storage.listing import tfds_folder as tfds_folder
from bushel.storage.listing import witnesses as witnesses
from bushel.storage.trust import data_folders as data_folders
from bushel.storage.trust import is_data as is_data
from bushel.storage.whole_files import Status as Status
from bushel.storage.whole_files import check_writable as check_writable
from bushel.storage.whole_files import copy_file as copy_file
from bushel.storage.whole_files import describe_os_error as describe_os_error
from bushel.storage.whole_files import fetch_extents as fetch_extents
from bushel.storage.whole_files import give_name as give_name
from bushel.storage.whole_files import load_bytes as load_bytes
from bushel.storage.whole_files import map_reads as map_reads
from bushel.storage.whole_files import new_folder as new_folder
from bushel.storage.whole_files import open_in_order as open_in_order
from bushel.storage.whole_files import open_to_read as open_to_read
from bushel.storage.whole_files import openable as openable
from bushel.storage.whole_files import read_each as read_each
from bushel.storage.whole_files import read_head as read_head
from bushel.storage.whole_files import read_if_there as read_if_there
from bushel.storage.whole_files import read_past_cache as read_past_cache
from bushel.storage.whole_files import read_together as read_together
from bushel.storage.whole_files import remove_below as remove_below
from bushel.storage.whole_files import status_of as status_of
from bushel.storage.whole_files import temporary_path as temporary_path
from bushel.storage.whole_files import upload as upload
from bushel.storage.whole_files import whole_path as whole_path
from bushel.storage.whole_files import write_array as write_array
from bushel.storage.whole_files import write_whole as write_whole
from bushel.storage.whole_folders import finish_move as finish_move
from bushel.storage.whole_folders import new_path as new_path
from bushel.storage.whole_folders import replace_folder as replace_folder
from bushel.storage.whole_folders import replaced_path as replaced_path
from bushel.storage.whole_folders import sync_folder as sync_folder
