"""Sample to sample, the same at build time and at reading time. Each is a value; several run in the order given.

from bushel import transforms as t

bushel.batches(train, batch_size=64, transforms=[t.decode_image("image"), t.resize("image", 224, 224)])
"""

from __future__ import annotations

# A name that is imported as itself is offered to users.
from bushel.transforms.augment import brightness as brightness
from bushel.transforms.augment import contrast as contrast
from bushel.transforms.augment import cutmix as cutmix
from bushel.transforms.augment import cutout as cutout
from bushel.transforms.augment import hue as hue
from bushel.transforms.augment import mixup as mixup
from bushel.transforms.augment import noise as noise
from bushel.transforms.augment import random_crop as random_crop
from bushel.transforms.augment import random_flip as random_flip
from bushel.transforms.augment import random_resized_crop as random_resized_crop
from bushel.transforms.augment import random_shift as random_shift
from bushel.transforms.augment import rotate as rotate
from bushel.transforms.augment import saturation as saturation
from bushel.transforms.by_name import trust as trust
from bushel.transforms.calendar_parts import date_parts as date_parts
from bushel.transforms.chain import apply_all as apply_all
from bushel.transforms.classes import encode as encode
from bushel.transforms.classes import multi_hot as multi_hot
from bushel.transforms.classes import one_hot as one_hot
from bushel.transforms.encoded import encode_image as encode_image
from bushel.transforms.encoded import on_background as on_background
from bushel.transforms.encoded import reencode as reencode
from bushel.transforms.encoded import resize_encoded as resize_encoded
from bushel.transforms.fill_and_scale import fill as fill
from bushel.transforms.fill_and_scale import min_max as min_max
from bushel.transforms.fill_and_scale import require as require
from bushel.transforms.fill_and_scale import robust_scale as robust_scale
from bushel.transforms.fill_and_scale import standardise as standardise
from bushel.transforms.image import center_crop as center_crop
from bushel.transforms.image import convert_colour as convert_colour
from bushel.transforms.image import decode_image as decode_image
from bushel.transforms.image import resize as resize
from bushel.transforms.interface import BatchTransform as BatchTransform
from bushel.transforms.interface import ColumnTransform as ColumnTransform
from bushel.transforms.interface import DeclaredTransform as DeclaredTransform
from bushel.transforms.interface import Draw as Draw
from bushel.transforms.interface import Fit as Fit
from bushel.transforms.interface import Fittable as Fittable
from bushel.transforms.interface import PaintedTransform as PaintedTransform
from bushel.transforms.interface import Transform as Transform
from bushel.transforms.numbers import bucketise as bucketise
from bushel.transforms.numbers import cast as cast
from bushel.transforms.numbers import clip as clip
from bushel.transforms.numbers import jitter as jitter
from bushel.transforms.numbers import log as log
from bushel.transforms.numbers import normalise as normalise
from bushel.transforms.numbers import scale as scale
from bushel.transforms.numbers import window as window
from bushel.transforms.sound import decode_audio as decode_audio
from bushel.transforms.sound import fit_audio as fit_audio
from bushel.transforms.sound import mel as mel
from bushel.transforms.sound import spectrogram as spectrogram
from bushel.transforms.text_vectors import embed as embed
from bushel.transforms.text_vectors import hash_ngrams as hash_ngrams
from bushel.transforms.text_vectors import raw as raw
from bushel.transforms.text_vectors import sparse as sparse
from bushel.transforms.text_vectors import tfidf as tfidf
from bushel.transforms.texts import clean as clean
from bushel.transforms.texts import tokenise as tokenise
from bushel.transforms.texts import tokenise_file as tokenise_file

# The American spellings. Written out, so that editors and type checkers know them; a test compares them with the table.
bucketize = bucketise
convert_color = convert_colour
normalize = normalise
standardize = standardise
tokenize = tokenise
tokenize_file = tokenise_file
