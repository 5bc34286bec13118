"""All of bushel's own rules: importing this registers them."""

from bushel.checking.rules import file_rules as files
from bushel.checking.rules import image_rules as images
from bushel.checking.rules import label_rules as labels
from bushel.checking.rules import model_rules as models
from bushel.checking.rules import order_rules as order
from bushel.checking.rules import probe_rules as probes
from bushel.checking.rules import run_rules as runs
from bushel.checking.rules import schema_rules as layout
from bushel.checking.rules import serving_rules as serving
from bushel.checking.rules import split_rules as splits
from bushel.checking.rules import text_rules as wording
from bushel.checking.rules import value_rules as values
from bushel.checking.script import amount_rules, decoding_rules, loss_rules, scaling_rules, speed_rules, writing_rules
from bushel.checking.script import feature_rules as data_rules
from bushel.checking.script import fit_rules as training_rules
from bushel.checking.script import link_order_rules as order_rules
from bushel.checking.script import path_rules as file_rules

MODULES = (
    *(files, layout, values, images, wording, labels, order, splits),
    *(order_rules, amount_rules, file_rules, data_rules, decoding_rules),
    *(scaling_rules, loss_rules, training_rules, writing_rules, speed_rules),
    *(models, probes, runs, serving),
)
