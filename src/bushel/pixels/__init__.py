"""Images as bytes and as pixels: what headers say, decoding, encoding, turning."""
