"""Records of `penstock.matched`: what they hold, reading them as they come, reading them again."""
