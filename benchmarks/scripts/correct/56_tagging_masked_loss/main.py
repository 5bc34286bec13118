from tagger.config import Config
from tagger.train import run

if __name__ == "__main__":
    run(Config.from_args())
