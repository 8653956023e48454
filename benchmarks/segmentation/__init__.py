"""Where texts are cut: labelled texts, how far cuts are from them, and the weights of cues fitted to them."""
