"""All of bushel's own rules: importing this registers them."""

from bushel.checking import files, images, labels, layout, models, order, probes, runs, serving, splits, values, wording
from bushel.checking.script import (
    amount_rules,
    data_rules,
    decoding_rules,
    file_rules,
    loss_rules,
    order_rules,
    scaling_rules,
    speed_rules,
    training_rules,
    writing_rules,
)

MODULES = (
    *(files, layout, values, images, wording, labels, order, splits),
    *(order_rules, amount_rules, file_rules, data_rules, decoding_rules),
    *(scaling_rules, loss_rules, training_rules, writing_rules, speed_rules),
    *(models, probes, runs, serving),
)
