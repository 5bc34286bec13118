import tensorflow as tf


def make_optimizer(cfg, total_steps):
    warmup = int(cfg["warmup_share"] * total_steps)
    rate = tf.keras.optimizers.schedules.CosineDecay(
        initial_learning_rate=cfg["peak"] / 10,
        warmup_target=cfg["peak"],
        warmup_steps=warmup,
        decay_steps=total_steps - warmup,
    )
    if cfg["name"] == "adamw":
        opt = tf.keras.optimizers.AdamW(rate, weight_decay=cfg["weight_decay"])
        opt.exclude_from_weight_decay(var_names=["bias"])
        return opt
    raise ValueError(f"unknown optimizer {cfg['name']}")
