"""Images as bytes and as pixels: headers, decoding, encoding, resizing."""
